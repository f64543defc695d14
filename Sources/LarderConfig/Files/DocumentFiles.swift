import Glibc
internal import JSON

/// The files that together are one document, as they were at one moment.
struct DocumentFiles: Sendable {
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

/// One file that holds a whole document.
///
/// Reading blocks until the disk has answered. Nothing is kept between two readings.
struct DocumentFile: Sendable, Hashable {
    let path: String
    /// The largest content accepted, in bytes.
    let maximumBytes: Int

    /// Makes a reader of a file. The file need not exist yet.
    init(path: String, maximumBytes: Int = 16 << 20) {
        self.path = path
        self.maximumBytes = maximumBytes
    }

    /// Reads the file. If it changes meanwhile it is read again, a few times.
    ///
    /// - Throws: ``FileReadError``; an empty file is an error, because it is what a file looks like that is about to be
    ///   written.
    func read() throws(FileReadError) -> DocumentFiles {
        let reading = try CarefulFile(name: path.cPath, path: path, maximumBytes: maximumBytes).read()
        guard !reading.bytes.isEmpty else {
            throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}")
        }
        return DocumentFiles(files: [DocumentFiles.File(path: path, bytes: reading.bytes)])
    }
}
