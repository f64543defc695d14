package import LarderConfigModel
package import LarderJSON

/// Where in files a value stands.
package struct FilePlace: Sendable, Hashable {
    package var file: String
    /// From 1.
    package var line: Int

    /// Looks through the files that a layer was made of. Blocks until the disk has answered.
    ///
    /// - Parameters:
    ///   - saying: what the layer says at the path
    ///   - merge: makes the layer's document of the files'
    /// - Returns: the last file that has a say at the path, which is the one that counts; nil where none has, or where the
    ///   files cannot be read or say something else by now
    package static func find(
        _ path: [String], in location: String, maximumBytes: Int, saying: PatchEffect,
        merge: ([JSONValue]) -> ComposedPatch
    ) -> FilePlace? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), merge(documents).effect(at: path) == saying
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.effect(at: path) != .unchanged {
            return FilePlace(file: file.path, line: DocumentFiles.line(of: JSONPath(path), in: file, document))
        }
        return nil
    }
}
