package import LarderConfigModel
package import LarderJSON

/// Reads a layer from a file or directory.
package struct FileLayerReader: Sendable {
    package let layer: FileLayer
    /// The file or directory. If nil, the settings name none, and the layer is empty.
    package let path: String?
    /// Reads the layer. Blocks on disk I/O.
    package let read: @Sendable () throws(FileReadError) -> ComposedPatch

    package init(
        layer: FileLayer, path: String?, read: @escaping @Sendable () throws(FileReadError) -> ComposedPatch
    ) {
        self.layer = layer
        self.path = path
        self.read = read
    }

    /// Merges documents, from lowest to highest precedence.
    ///
    /// - Parameter keepsNulls: whether nulls are kept, because they can remove members of a lower layer
    package static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}
