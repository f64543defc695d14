package import LarderConfigModel
package import LarderJSON

/// Reads a layer from a file or directory.
package struct FileLayerReader: Sendable {
    package let layer: FileLayer
    /// The file or directory. If nil, the settings name none, and the layer is empty.
    package let path: String?
    private let content: @Sendable (_ isCancelled: @escaping () -> Bool) throws(FileReadError) -> ComposedPatch

    /// - Parameter content: reads the layer. If its parameter returns true, it throws an error with the code
    ///   `cancelled`.
    package init(
        layer: FileLayer, path: String?,
        content: @escaping @Sendable (_ isCancelled: @escaping () -> Bool) throws(FileReadError) -> ComposedPatch
    ) {
        self.layer = layer
        self.path = path
        self.content = content
    }

    /// Reads the layer. Blocks on disk I/O.
    ///
    /// - Parameter isCancelled: returns whether the content is not needed any more
    package func read(unless isCancelled: @escaping () -> Bool = { false }) throws(FileReadError) -> ComposedPatch {
        try content(isCancelled)
    }

    /// Merges documents, from lowest to highest precedence.
    ///
    /// - Parameter keepsNulls: whether nulls are kept, because they can remove members of a lower layer
    package static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}
