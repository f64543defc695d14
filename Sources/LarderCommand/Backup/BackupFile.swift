import Crypto
import JSON

/// A backup: snapshots of every namespace as files of the state directory, and where they are from.
///
/// The file is lines of JSON: the header, one line for each snapshot, and last the SHA-256 of all bytes before that line.
struct BackupFile: Equatable {
    static let format = 1

    struct Generation: Equatable {
        var namespace: String
        var revision: Int
        /// The content of its file.
        var text: String
        var isPinned = false
    }

    /// The version of the agent.
    var version: String
    var createdAt: String
    /// The state directory of the agent.
    var stateDirectory: String
    var generations: [Generation] = []

    /// How many namespaces have a snapshot.
    var namespaceCount: Int { Set(generations.map(\.namespace)).count }

    func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("larderBackup", Self.format)
        writer.member("version", version)
        writer.member("createdAt", createdAt)
        writer.member("stateDirectory", stateDirectory)
        writer.endObject()
        writer.endLine()
        for generation in generations {
            writer.beginObject()
            writer.member("namespace", generation.namespace)
            writer.member("revision", generation.revision)
            if generation.isPinned { writer.member("pinned", true) }
            writer.member("generation", generation.text)
            writer.endObject()
            writer.endLine()
        }
        let digest = Self.digest(of: writer.bytes)
        writer.beginObject()
        writer.member("sha256", digest)
        writer.endObject()
        writer.endLine()
        return writer.bytes
    }

    init(version: String, createdAt: String, stateDirectory: String) {
        self.version = version
        self.createdAt = createdAt
        self.stateDirectory = stateDirectory
    }

    /// Reads a file.
    /// - Parameter name: the file's name, for messages
    /// - Throws: ``Failure`` if it is not a whole backup that this version can read.
    init(decoding bytes: [UInt8], name: String) throws(Failure) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        // Each line has an end, so the last piece is empty.
        guard lines.popLast()?.isEmpty ?? false, let last = lines.popLast(), let first = lines.first,
            let header = try? JSONValue(parsing: Array(first)), let format = header["larderBackup"]?.int
        else { throw Failure(.failure, "\(name) is not a whole file of larder backup") }
        guard format == Self.format else {
            throw Failure(
                .failure, "\(name) has format \(format), and this version reads format \(Self.format); use that version"
            )
        }
        let content = bytes.dropLast(last.count + 1)
        guard let end = try? JSONValue(parsing: Array(last)), end["sha256"]?.string == Self.digest(of: Array(content)),
            let version = header["version"]?.string, let createdAt = header["createdAt"]?.string,
            let stateDirectory = header["stateDirectory"]?.string
        else { throw Failure(.failure, "\(name) is damaged: its content does not have the SHA-256 in its last line") }
        self.init(version: version, createdAt: createdAt, stateDirectory: stateDirectory)
        for line in lines.dropFirst() {
            guard let value = try? JSONValue(parsing: Array(line)), let generation = Generation(value) else {
                throw Failure(.failure, "\(name) has a line that is not a snapshot")
            }
            generations.append(generation)
        }
    }

    private static func digest(of bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for byte in SHA256.hash(data: bytes) { text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }
}

extension BackupFile.Generation {
    /// Reads a line. Namespace and revision become names of files, so they are checked.
    fileprivate init?(_ value: JSONValue) {
        guard let namespace = value["namespace"]?.string, let revision = value["revision"]?.int,
            let text = value["generation"]?.string, (1..<(1 << 53)).contains(revision),
            (1...64).contains(namespace.utf8.count),
            let first = namespace.utf8.first, Self.isLetterOrDigit(first),
            namespace.utf8.allSatisfy({ Self.isLetterOrDigit($0) || "._-".utf8.contains($0) })
        else { return nil }
        self.init(namespace: namespace, revision: revision, text: text, isPinned: value["pinned"]?.bool ?? false)
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
