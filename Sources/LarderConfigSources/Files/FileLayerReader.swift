package import LarderConfigModel
package import LarderJSON

/// Reads a file layer as the settings describe it.
package struct FileLayerReader: Sendable {
    package let layer: FileLayer
    /// The file or directory; nil if the settings name none. The layer is empty then.
    package let path: String?
    /// Reads the layer. Blocks until the disk has answered.
    package let read: @Sendable () throws(FileReadError) -> ComposedPatch

    package init(
        layer: FileLayer, path: String?, read: @escaping @Sendable () throws(FileReadError) -> ComposedPatch
    ) {
        self.layer = layer
        self.path = path
        self.read = read
    }

    /// Merges documents, lowest first.
    ///
    /// - Parameter keepsNulls: whether a layer below has members that a null can remove
    package static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}
