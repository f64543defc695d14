import LarderDigest
import LarderEncoding
import LarderJSON

/// A backup: snapshots of the namespaces, and information about the agent that they come from. Each snapshot has the
/// format of a generation file, in which the agent stores one snapshot in its state directory.
///
/// The file consists of lines of JSON: the header, one line per snapshot, and the SHA-256 of all preceding bytes.
struct BackupFile: Equatable {
    static let format = 1

    struct Generation: Equatable {
        var namespace: String
        var revision: Int
        /// The content of the snapshot's generation file, without changes.
        var text: String
        var isPinned = false
    }

    /// The version of the agent.
    var version: String
    var createdAt: String
    /// The state directory of the agent.
    var stateDirectory: String
    /// Namespaces that the backup does not contain, because the user who made it had some right in them, but not the
    /// right to read.
    var omitted: [String] = []
    /// Whether the agent listed every namespace to the user who made the backup. The agent does so for root and for the
    /// user that the agent runs as. Other users do not see namespaces in which they have no right. Nil if the backup
    /// does not contain this information.
    var isComplete: Bool?
    var generations: [Generation] = []

    var namespaceCount: Int { Set(generations.map(\.namespace)).count }

    /// A verb phrase that describes which namespaces the backup omits or may omit. Nil if the backup is complete, or
    /// does not contain this information.
    var omission: String? {
        if !omitted.isEmpty {
            return "omits namespaces that the user who created it may not read: \(omitted.joined(separator: ", "))"
        }
        if isComplete == false {
            return "may omit namespaces, because it was not created by root or the agent's user"
        }
        return nil
    }

    func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("larderBackup", Self.format)
        writer.member("version", version)
        writer.member("createdAt", createdAt)
        writer.member("stateDirectory", stateDirectory)
        if !omitted.isEmpty { writer.member("omitted", .array(omitted.map(JSONValue.string))) }
        if let isComplete { writer.member("complete", isComplete) }
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
        writer.value(["sha256": .string(Self.digest(of: writer.bytes))])
        writer.endLine()
        return writer.bytes
    }

    fileprivate static func digest(of bytes: [UInt8]) -> String { SHA256.hash(bytes).hex }
}

extension BackupFile {
    /// Parses a backup.
    /// - Parameter name: the name of the file, for messages
    /// - Throws: ``Failure`` if it is not a complete backup in a format that this version can read.
    init(decoding bytes: [UInt8], name: String) throws(Failure) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        // Every line ends with an LF, so the last part is empty.
        guard lines.popLast()?.isEmpty ?? false, let last = lines.popLast(), let first = lines.first,
            let header = try? JSONValue(parsing: Array(first)), let format = header["larderBackup"]?.int
        else { throw Failure(.failure, "\(name) is not a complete backup; name a file that larder backup created") }
        guard format == Self.format else {
            throw Failure(
                .failure,
                "\(name) has format \(format), but this version of larder reads format \(Self.format); restore it with the "
                    + "version that created it")
        }
        let content = bytes.dropLast(last.count + 1)
        guard let end = try? JSONValue(parsing: Array(last)), end["sha256"]?.string == Self.digest(of: Array(content)),
            let version = header["version"]?.string, let createdAt = header["createdAt"]?.string,
            let stateDirectory = header["stateDirectory"]?.string
        else {
            throw Failure(
                .failure,
                "\(name) is damaged: its content does not match the SHA-256 in its last line; use another backup")
        }
        self.init(version: version, createdAt: createdAt, stateDirectory: stateDirectory)
        omitted = header["omitted"]?.elements.compactMap(\.string) ?? []
        isComplete = header["complete"]?.bool
        var known: Set<String> = []
        // The header is line 1, so the first snapshot is line 2.
        for (number, line) in lines.enumerated().dropFirst() {
            do throws(Generation.Damage) {
                let generation = try Generation(Array(line))
                guard known.insert("\(generation.namespace) \(generation.revision)").inserted else {
                    throw Generation.Damage(
                        reason: "revision \(generation.revision) of namespace \"\(generation.namespace)\" occurs twice")
                }
                generations.append(generation)
            } catch {
                throw Failure(
                    .failure, "\(name):\(number + 1): \(error.reason); nothing was restored; use another backup")
            }
        }
        if generations.isEmpty, omitted.isEmpty {
            throw Failure(.failure, "\(name) contains no snapshot; nothing was restored; use another backup")
        }
    }
}

extension BackupFile.Generation {
    /// The format version of generation files.
    private static let format = 1

    fileprivate struct Damage: Error {
        let reason: String
    }

    /// Parses the line of a snapshot. Checks namespace and revision strictly, because they become file names.
    fileprivate init(_ line: [UInt8]) throws(Damage) {
        guard let value = try? JSONValue(parsing: line), let namespace = value["namespace"]?.string,
            let revision = value["revision"]?.int, let text = value["generation"]?.string,
            revision > 0, Self.possibleNumbers.contains(revision), (1...64).contains(namespace.utf8.count),
            let first = namespace.utf8.first, Self.isLetterOrDigit(first),
            namespace.utf8.allSatisfy({ Self.isLetterOrDigit($0) || "._-".utf8.contains($0) })
        else { throw Damage(reason: "the line is not a snapshot") }
        self.init(namespace: namespace, revision: revision, text: text, isPinned: value["pinned"]?.bool ?? false)
        try checkText()
    }

    /// Checks that the content of the generation file is complete and belongs to this namespace and revision. Without
    /// this check, the agent would later move a damaged file aside and start with an older snapshot.
    private func checkText() throws(Damage) {
        let lines = Array(text.utf8).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count == 3, lines[2].isEmpty, let header = try? JSONValue(parsing: Array(lines[0])) else {
            throw Damage(reason: "the snapshot is not two lines of JSON")
        }
        guard header["sha256"]?.string == BackupFile.digest(of: Array(lines[1])),
            let body = try? JSONValue(parsing: Array(lines[1]), maximumDepth: 256)
        else { throw Damage(reason: "the snapshot is damaged: it does not match the SHA-256 in its first line") }
        guard header["format"]?.int == Self.format, body["format"]?.int == Self.format else {
            let format = header["format"]?.compactText ?? "none"
            throw Damage(
                reason: "the snapshot has format \(format), but this version of larder reads format \(Self.format)")
        }
        guard let written = body["namespace"]?.string, written == namespace, body["revision"]?.int == revision else {
            let found = "revision \(body["revision"]?.compactText ?? "none")"
            let place = "namespace \(body["namespace"]?.compactText ?? "none")"
            throw Damage(
                reason: "the line names revision \(revision) of namespace \"\(namespace)\", but contains "
                    + "\(found) of \(place)")
        }
        let numbers = ["publishedAt", "journal", "released"]
        guard numbers.allSatisfy({ Self.possibleNumbers.contains(body[$0]?.int ?? -1) }),
            let digest = body["digest"]?.string, Self.isDigest(digest), body["epoch"]?.string != nil,
            let layers = body["layers"], Self.areLayers(layers), body["published"].map(Self.areLayers) ?? true
        else { throw Damage(reason: "a member of the snapshot is missing or has the wrong type") }
    }

    /// The range of the numbers, such as revisions, that the agent writes.
    private static let possibleNumbers = 0..<(1 << 53)

    private static func isDigest(_ text: String) -> Bool { [UInt8](hex: text)?.count == SHA256.byteCount }

    /// Whether the value of each layer has the JSON type that the layer requires. A layer that this version does not
    /// know must be an object or an array.
    private static func areLayers(_ value: JSONValue) -> Bool {
        value.kind == .object
            && value.members.allSatisfy { name, layer in
                switch name {
                case "defaults", "host", "remote", "experiment", "hold": layer.kind == .object
                case "override", "locks": layer.kind == .array
                default: layer.kind == .object || layer.kind == .array
                }
            }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
