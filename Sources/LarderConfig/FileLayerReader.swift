import LarderJSON

/// Where a file layer is read, as the settings say.
struct FileLayerReader: Sendable {
    let layer: FileLayer
    /// The file or directory; nil where the settings name none, and the layer is empty.
    let path: String?
    /// Reads it. Blocks until the disk has answered.
    let read: @Sendable () throws(FileReadError) -> ComposedPatch

    /// Merges documents, lowest first.
    ///
    /// - Parameter keepsNulls: whether a layer below has members that a null can remove
    static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}
