package import LarderConfigModel
package import LarderJSON

/// A line of a file in which a value is written.
package struct SourceLocation: Sendable, Hashable {
    package var file: String
    /// The line, from 1.
    package var line: Int

    /// Searches the files of a layer. Blocks until the disk has answered.
    ///
    /// - Parameters:
    ///   - location: the file or directory of the layer
    ///   - effect: the layer's effect at the path
    ///   - merge: makes the layer of the files' documents
    /// - Returns: The location in the last file with an effect at the path, which overrides the others. Nil if no file has one,
    ///   or if the files cannot be read or have changed since.
    package static func find(
        _ path: [String], in location: String, maximumBytes: Int, effect: PatchEffect,
        merge: ([JSONValue]) -> ComposedPatch
    ) -> SourceLocation? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), merge(documents).effect(at: path) == effect
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.effect(at: path) != .unchanged {
            return SourceLocation(file: file.path, line: DocumentFiles.line(of: JSONPath(path), in: file, document))
        }
        return nil
    }
}
