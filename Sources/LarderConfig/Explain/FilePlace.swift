import JSON

/// Where in files a value stands.
struct FilePlace: Sendable, Hashable {
    var file: String
    /// From 1.
    var line: Int

    /// Looks through the files that a layer was made of. Blocks until the disk has answered.
    ///
    /// - Parameters:
    ///   - saying: what the layer says at the path
    ///   - merge: makes the layer's document of the files'
    /// - Returns: the last file that has a say at the path, which is the one that counts; nil where none has, or where the
    ///   files cannot be read or say something else by now
    static func find(
        _ path: [String], in location: String, maximumBytes: Int, saying: PatchSaying,
        merge: ([JSONValue]) -> JSONValue
    ) -> FilePlace? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), merge(documents).says(at: path) == saying
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.says(at: path) != .nothing {
            return FilePlace(file: file.path, line: document.place(of: JSONPath(path)).line)
        }
        return nil
    }
}
