package import LarderConfigModel
package import LarderJSON

/// Where a file layer is read, as the settings say.
package struct FileLayerReader: Sendable {
    package let layer: FileLayer
    /// The file or directory; nil where the settings name none, and the layer is empty.
    package let path: String?
    /// Reads it. Blocks until the disk has answered.
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
