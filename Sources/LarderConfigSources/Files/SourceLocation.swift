package import LarderConfigModel
package import LarderJSON

/// The file and line that define a value.
package struct SourceLocation: Sendable, Hashable {
    package var file: String
    /// The line, from 1.
    package var line: Int

    /// Searches the files of a layer for the definition of the value at a path. Blocks on disk I/O.
    ///
    /// - Parameters:
    ///   - location: the file or directory of the layer
    ///   - effect: the known effect of the layer at the path. If the files now have another effect, they have changed.
    ///     Nil for an unknown effect.
    ///   - merge: builds the layer from the documents of the files
    /// - Returns: the location in the last file that affects the path, because that file overrides the others. Nil if
    ///   no file affects the path, or if the files cannot be read or have changed.
    package static func find(
        _ path: [String], in location: String, maximumBytes: Int, effect: PatchEffect?,
        merge: ([JSONValue]) -> ComposedPatch
    ) -> SourceLocation? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), effect == nil || merge(documents).effect(at: path) == effect
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.effect(at: path) != .unchanged {
            return SourceLocation(file: file.path, line: DocumentFiles.line(of: JSONPath(path), in: file, document))
        }
        return nil
    }
}
