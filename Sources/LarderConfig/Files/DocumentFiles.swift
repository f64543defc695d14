import Glibc
internal import JSON

/// The files that together are one document, as they were at one moment.
struct DocumentFiles: Sendable {
    /// What is in a file, and where it is.
    struct File: Sendable {
        let path: String
        let bytes: [UInt8]
    }

    /// The files, the lowest first.
    let files: [File]

    /// Stands for the names and contents of all files.
    var stamp: FileStamp { FileStamp(of: files.map { ($0.path, $0.bytes) }) }

    /// Reads a file, or the files of a directory, whichever is there now. Blocks until the disk has answered.
    ///
    /// - Throws: ``FileReadError``; a directory without files is an error as an empty file is one: so looks a directory
    ///   on which nothing is mounted.
    static func read(at path: String, maximumBytes: Int) throws(FileReadError) -> DocumentFiles {
        guard fileStatus(path.cPath)?.fileType == S_IFDIR else {
            return try DocumentFile(path: path, maximumBytes: maximumBytes).read()
        }
        let reading = try DocumentDirectory(path: path, maximumBytes: maximumBytes).read()
        guard !reading.files.isEmpty else {
            throw FileReadError(.empty, path, "it has no *.json file; put one there, at least with {}")
        }
        return reading
    }

    /// What each file says, an object.
    ///
    /// - Throws: ``FileReadError`` naming the file that does not say one.
    func documents() throws(FileReadError) -> [JSONValue] {
        var documents: [JSONValue] = []
        for file in files { documents.append(try Self.parse(file)) }
        return documents
    }

    private static func parse(_ file: File) throws(FileReadError) -> JSONValue {
        let path = file.path
        if file.bytes.isEmpty { throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}") }
        let document: JSONValue
        do throws(JSONError) {
            document = try JSONValue(parsing: file.bytes)
        } catch {
            throw FileReadError(.invalidJSON, path, error.reason, offset: error.offset)
        }
        guard document.kind == .object else {
            throw FileReadError(.notAnObject, path, "it is JSON, but not an object; put the settings between { and }")
        }
        return document
    }
}
