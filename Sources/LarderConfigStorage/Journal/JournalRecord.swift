package import LarderConfigModel
import LarderDigest
import LarderEncoding
import LarderJSON

/// The changes of a commit, written to disk before the commit is acknowledged. The record is needed until a generation
/// contains the changes.
///
/// A record is one line: the first sixteen hex digits of the SHA-256 of the JSON; a space; the JSON; LF. Records have
/// consecutive sequence numbers. A zero byte after the last record is the end mark. Remains of older records may follow
/// it, because the journal is written from its start again once a generation contains all records.
package struct JournalRecord: Sendable {
    package var sequence: Int
    /// The revision of the snapshot with these changes.
    package var revision: Int
    /// The digest of the resolved layers.
    package var digest: String
    /// In milliseconds since 1970.
    package var publishedAt: Int
    /// Reservations up to this bound are settled: none of the reserved revisions above ``revision`` was published.
    package var released: Int
    var operations: [LayerOperation]
    /// Why the snapshot was published; empty if no snapshot was published for this record.
    package var causes: [ChangeCause] = []

    package init(
        sequence: Int, revision: Int, digest: String, publishedAt: Int, released: Int, operations: [LayerOperation],
        causes: [ChangeCause] = []
    ) {
        self.sequence = sequence
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.released = released
        self.operations = operations
        self.causes = causes
    }

    func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("sequence", sequence)
        writer.member("revision", revision)
        writer.member("digest", digest)
        writer.member("publishedAt", publishedAt)
        writer.member("released", released)
        writer.member("operations", operations)
        writer.member("causes", causes)
        writer.endObject()
        return Self.checksum(writer.bytes[...]) + [UInt8(ascii: " ")] + writer.bytes + [UInt8(ascii: "\n")]
    }

    /// Parses one line without its LF; nil unless it is an intact record.
    package init?(_ line: ArraySlice<UInt8>) {
        guard let content = Self.content(of: line),
            let value = try? JSONValue(parsing: Array(content), maximumDepth: 256),
            let sequence = value["sequence"]?.int, let revision = value["revision"]?.int,
            let digest = value["digest"]?.string, let publishedAt = value["publishedAt"]?.int,
            let released = value["released"]?.int,
            let operations = value["operations"]?.elements.mapAll(LayerOperation.init),
            [sequence, revision, released].allSatisfy(ExactIntegers.range.contains)
        else { return nil }
        self.sequence = sequence
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.released = released
        self.operations = operations
        causes = ChangeCause.list(value["causes"])
    }

    /// The sequence number of an intact line that is not a valid record, because another version of this program wrote
    /// it.
    static func sequenceOfAnotherVersion(_ line: ArraySlice<UInt8>) -> Int? {
        guard let content = content(of: line) else { return nil }
        return (try? JSONValue(parsing: Array(content), maximumDepth: 256))?["sequence"]?.int
    }

    /// The sequence number of a record whose first byte was replaced by zero; nil for any other line. A record of a
    /// refused change begins with two zeros, so this method returns nil for it.
    static func sequenceWithoutFirstByte(_ line: ArraySlice<UInt8>) -> Int? {
        guard line.first == 0, line.count > 17 else { return nil }
        let content = line.dropFirst(17)
        guard line.prefix(16).dropFirst().elementsEqual(checksum(content).dropFirst()) else { return nil }
        return (try? JSONValue(parsing: Array(content), maximumDepth: 256))?["sequence"]?.int
    }

    /// The JSON of a line; nil if the checksum at the beginning of the line does not match that JSON.
    private static func content(of line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let content = line.dropFirst(17)
        guard line.count > 17, line[line.startIndex + 16] == UInt8(ascii: " "),
            line.prefix(16).elementsEqual(checksum(content))
        else { return nil }
        return content
    }

    private static func checksum(_ content: ArraySlice<UInt8>) -> [UInt8] {
        Array(SHA256.hash(content).prefix(8).hex.utf8)
    }
}

// The JSON encoding of operations in the journal.

extension LayerOperation: JSONObjectWritable {
    init?(_ value: JSONValue) {
        if let entry = value["set"] {
            guard let entry = OverrideEntry(entry) else { return nil }
            self = .set(entry)
        } else if let path = value["unset"] {
            self = .unset(path: path.elements.compactMap(\.string))
        } else if let expired = value["expired"] {
            var overrides: [ExpiringOverride] = []
            for element in expired.elements {
                guard let path = element["path"], let end = element["expiresAt"]?.int else { return nil }
                overrides.append(ExpiringOverride(path: path.elements.compactMap(\.string), expiresAt: end))
            }
            self = .expireOverrides(overrides)
        } else if let time = value["expire"]?.int {
            self = .expire(at: time)
        } else if let remote = value["remote"] {
            guard let remote = RemoteDocument(remote) else { return nil }
            if let rollout = value["rollout"] {
                guard let revision = rollout["revision"]?.int, let since = rollout["since"]?.int else { return nil }
                self = .rollout(remote, revision: revision, since: since)
            } else {
                self = .remote(remote, endsHold: value["endsHold"]?.bool ?? false)
            }
        } else if value["dropRemote"] != nil {
            self = .dropRemote
        } else if let rollback = value["rollback"] {
            guard let override = rollback["override"].flatMap(OverrideLayer.init) else { return nil }
            var hold: RollbackHold?
            if let held = rollback["hold"] {
                hold = RollbackHold(held)
                if hold == nil { return nil }
            }
            self = .rollback(overrides: override, hold)
        } else if value["release"] != nil {
            self = .release
        } else if let layer = value["experiment"] {
            guard let layer = ExperimentLayer(layer) else { return nil }
            self = .experiment(layer)
        } else {
            return nil
        }
    }

    func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .set(let entry): writer.member("set", entry)
        case .unset(let path): writer.member("unset", path)
        case .expireOverrides(let overrides): writer.member("expired", overrides)
        case .expire(let time): writer.member("expire", time)
        case .remote(let remote, let endsHold):
            writer.member("remote", remote)
            if endsHold { writer.member("endsHold", true) }
        case .rollout: preconditionFailure("this version of the program begins no rollouts")
        case .dropRemote: writer.member("dropRemote", true)
        case .rollback(let overrides, let hold):
            writer.name("rollback")
            writer.beginObject()
            writer.member("override", overrides)
            writer.member("hold", hold)
            writer.endObject()
        case .release: writer.member("release", true)
        case .experiment(let layer): writer.member("experiment", layer)
        }
    }
}

extension ExpiringOverride: JSONObjectWritable {
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("path", path)
        writer.member("expiresAt", expiresAt)
    }
}
