import Glibc
import LarderDigest
import LarderEncoding
package import LarderJSON
import LarderJSON5
package import LarderPlatform

/// The files of one document in a consistent state.
package struct DocumentFiles: Sendable {
    package struct File: Sendable {
        package let path: String
        package let bytes: [UInt8]

        var isJSON5: Bool { path.hasSuffix(".json5") }
    }

    /// The files, from lowest to highest precedence.
    package let files: [File]

    var digest: ContentDigest { ContentDigest(of: files.map { ($0.path, $0.bytes) }) }

    /// Reads a file or the files of a directory, whichever exists now. Tries again a few times if it changes during the
    /// read. Blocks on disk I/O.
    ///
    /// - Throws: ``FileReadError``. An empty file and a directory without files are errors: the file may be about to be
    ///   written, and the file system of the directory may not be mounted.
    package static func read(at path: String, maximumBytes: Int) throws(FileReadError) -> DocumentFiles {
        guard fileStatus(path.cPath)?.fileType == S_IFDIR else {
            let bytes = try StableFileReader(name: path.cPath, path: path, maximumBytes: maximumBytes).read().bytes
            guard !bytes.isEmpty else {
                throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}", at: (1, 1))
            }
            return DocumentFiles(files: [DocumentFiles.File(path: path, bytes: bytes)])
        }
        let reading = try DocumentDirectory(path: path, maximumBytes: maximumBytes).read()
        guard !reading.files.isEmpty else {
            throw FileReadError(.empty, path, "it has no *.json or *.json5 file; put one there, at least with {}")
        }
        return reading
    }

    /// Parses each file as an object.
    ///
    /// - Parameter isCancelled: returns whether the documents are not needed any more
    /// - Throws: ``FileReadError``, naming the file that is not an object; with the code `cancelled` if `isCancelled`
    ///   has returned true
    package func documents(unless isCancelled: @escaping () -> Bool = { false }) throws(FileReadError) -> [JSONValue] {
        try files.map { file throws(FileReadError) in try Self.parse(file, unless: isCancelled) }
    }

    /// Parses a file as an object.
    package static func parse(
        _ file: File, unless isCancelled: @escaping () -> Bool = { false }
    ) throws(FileReadError) -> JSONValue {
        let document = try value(of: file, unless: isCancelled)
        guard document.kind == .object else {
            throw FileReadError(
                .notAnObject, file.path, "it is JSON, but not an object; put its members between { and }", at: (1, 1))
        }
        return document
    }

    /// Parses a file as a value of any kind.
    package static func value(
        of file: File, unless isCancelled: @escaping () -> Bool = { false }
    ) throws(FileReadError) -> JSONValue {
        let (path, bytes) = (file.path, ByteOrderMark.dropped(from: file.bytes))
        if bytes.isEmpty {
            throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}", at: (1, 1))
        }
        return file.isJSON5
            ? try parseJSON5(bytes, path, unless: isCancelled) : try parseJSON(bytes, path, unless: isCancelled)
    }

    private static func cancelled(_ path: String) -> FileReadError {
        FileReadError(.cancelled, path, "it was not read, because the settings changed or the agent stops; retry")
    }

    private static func parseJSON(
        _ bytes: [UInt8], _ path: String, unless isCancelled: @escaping () -> Bool
    ) throws(FileReadError) -> JSONValue {
        do {
            return try JSONValue(parsing: bytes, unless: isCancelled)
        } catch let error as JSONError {
            let isCommented = bytes.dropFirst(error.offset).first == UInt8(ascii: "/")
            let advice = isCommented ? "; rename it to *.json5 to use comments" : ""
            throw FileReadError(.invalidJSON, path, error.reason + advice, at: error.place(in: bytes))
        } catch {
            throw cancelled(path)
        }
    }

    private static func parseJSON5(
        _ bytes: [UInt8], _ path: String, unless isCancelled: @escaping () -> Bool
    ) throws(FileReadError) -> JSONValue {
        do throws(JSON5Error) {
            let scalars = try JSON5Parser.scalars(of: bytes, unless: isCancelled)
            let document = try JSON5Parser.parse(scalars, unless: isCancelled)
            if let value = try document.json(unless: isCancelled) { return value }
            throw JSON5Error(.syntax, "a number is too large for JSON", offset: document.offset).placed(in: scalars)
        } catch {
            if error.code == .cancelled { throw cancelled(path) }
            // The reason is logged and reported, and must not have values.
            let reason = error.quotation.map { error.reason.replacing($0, with: "\"…\"") } ?? error.reason
            throw FileReadError(.invalidJSON, path, reason, at: error.place)
        }
    }

    /// The line, from 1, of the value at a path in a parsed file; 1 if it is unknown.
    package static func line(of path: JSONPath, in file: File, _ document: JSONValue) -> Int {
        guard file.isJSON5 else { return document.place(of: path).line }
        // The value that was converted from JSON5 has no positions, so the file is parsed again.
        guard let scalars = try? JSON5Parser.scalars(of: ByteOrderMark.dropped(from: file.bytes)),
            let value = try? JSON5Parser.parse(scalars),
            let offset = value.offset(of: path.segments)
        else { return 1 }
        return JSON5Text.place(of: offset, in: scalars).line
    }
}

/// A digest of the names and contents of files.
///
/// Modification times would be cheaper, but they are not reliable. The kernel updates their clock only every few
/// milliseconds (on some file systems every two seconds), so two writes within that time have equal times.
package struct ContentDigest: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    init(of files: [(name: String, bytes: [UInt8])]) {
        var hash = SHA256()
        // Larder 0.1 composed several files into one patch, later versions into two. The prefix makes the digest differ
        // from that of 0.1, so that the files are read again after an update.
        if files.count > 1 { hash.update("composed to two patches".utf8) }
        for (name, bytes) in files {
            // The length before each part ensures that different files never produce the same input to the hash.
            for part in [Array(name.utf8), bytes] {
                withUnsafeBytes(of: part.count) { hash.update($0) }
                hash.update(part)
            }
        }
        digest = hash.finalize()
    }

    /// `sha256:` and 64 hexadecimal digits.
    package var description: String { "sha256:" + digest.hex }
}
