import Crypto
import LarderEncoding
import LarderJSON

/// One accepted change on its way into a generation: what a local client handed over, on disk before it is acknowledged.
///
/// A record is one line: sixteen hex digits, the beginning of the SHA-256 of the rest; a space; JSON; LF. Records
/// carry consecutive sequence numbers. A zero byte behind the last one says that it is the last: the journal is written
/// from its start again once a generation holds all of it, so that remainders of older records may stand there.
struct JournalRecord: Sendable {
    /// A change of a layer.
    enum Operation: Sendable {
        case set(OverrideLayer.Entry)
        case unset(path: [String])
        /// Entries that ended by themselves at a time.
        case expire(at: Int)
        /// The remote layer, which may end what a rollback holds.
        case remote(Layers.Remote, endsHold: Bool)
        case dropRemote
        /// What a rollback made of the overrides, and what it holds.
        case rollback(overrides: OverrideLayer, Hold?)
        case release
        /// The experiments that apply after the operations before it.
        case experiment(ExperimentLayer)
    }

    var sequence: Int
    /// The revision of the snapshot with these changes.
    var revision: Int
    /// Its digest.
    var digest: String
    /// In milliseconds since 1970.
    var publishedAt: Int
    /// Reservations up to this bound are settled: nothing above ``revision`` was published under them.
    var released: Int
    var operations: [Operation]
    /// What the snapshot was published for; empty where it was not published for this record.
    var causes: [ChangeCause] = []

    func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("sequence", sequence)
        writer.member("revision", revision)
        writer.member("digest", digest)
        writer.member("publishedAt", publishedAt)
        writer.member("released", released)
        writer.name("operations")
        writer.beginArray()
        for operation in operations { operation.write(to: &writer) }
        writer.endArray()
        writer.member("causes", causes)
        writer.endObject()
        return Self.checksum(writer.bytes[...]) + [UInt8(ascii: " ")] + writer.bytes + [UInt8(ascii: "\n")]
    }

    /// Reads one line without its LF. Nil where it is anything else than a whole record.
    init?(_ line: ArraySlice<UInt8>) {
        guard let content = Self.content(of: line),
            let value = try? JSONValue(parsing: Array(content), maximumDepth: 256),
            let sequence = value["sequence"]?.int, let revision = value["revision"]?.int,
            let digest = value["digest"]?.string, let publishedAt = value["publishedAt"]?.int,
            let released = value["released"]?.int, let operations = value["operations"],
            [sequence, revision, released].allSatisfy(ConfigArchive.possibleNumbers.contains)
        else { return nil }
        self.sequence = sequence
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.released = released
        self.operations = []
        for operation in operations.elements {
            guard let operation = Operation(operation) else { return nil }
            self.operations.append(operation)
        }
        causes = ChangeCause.list(value["causes"])
    }

    /// The sequence number of a line that is whole and no record all the same: another version of this program wrote it.
    static func sequenceOfAnotherVersion(_ line: ArraySlice<UInt8>) -> Int? {
        guard let content = content(of: line) else { return nil }
        return (try? JSONValue(parsing: Array(content), maximumDepth: 256))?["sequence"]?.int
    }

    /// The sequence number of a line that begins with a zero and is whole but for that. A record that was refused begins
    /// with two.
    static func sequenceWithoutFirstByte(_ line: ArraySlice<UInt8>) -> Int? {
        guard line.first == 0, line.count > 17 else { return nil }
        let content = line.dropFirst(17)
        guard line.prefix(16).dropFirst().elementsEqual(checksum(content).dropFirst()) else { return nil }
        return (try? JSONValue(parsing: Array(content), maximumDepth: 256))?["sequence"]?.int
    }

    /// What the checksum at the beginning of a line belongs to; nil where it does not.
    private static func content(of line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let content = line.dropFirst(17)
        guard line.count > 17, line[line.startIndex + 16] == UInt8(ascii: " "),
            line.prefix(16).elementsEqual(checksum(content))
        else { return nil }
        return content
    }

    init(
        sequence: Int, revision: Int, digest: String, publishedAt: Int, released: Int, operations: [Operation],
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

    private static func checksum(_ content: ArraySlice<UInt8>) -> [UInt8] {
        Array(SHA256.hash(data: content).hex.utf8.prefix(16))
    }
}

extension JournalRecord.Operation {
    init?(_ value: JSONValue) {
        if let entry = value["set"] {
            guard let entry = OverrideLayer.Entry(entry) else { return nil }
            self = .set(entry)
        } else if let path = value["unset"] {
            self = .unset(path: path.elements.compactMap(\.string))
        } else if let time = value["expire"]?.int {
            self = .expire(at: time)
        } else if let remote = value["remote"] {
            guard let remote = Layers.Remote(remote) else { return nil }
            self = .remote(remote, endsHold: value["endsHold"]?.bool ?? false)
        } else if value["dropRemote"] != nil {
            self = .dropRemote
        } else if let rollback = value["rollback"] {
            guard let override = rollback["override"].flatMap(OverrideLayer.init) else { return nil }
            var hold: Hold?
            if let held = rollback["hold"] {
                hold = Hold(held)
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

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        switch self {
        case .set(let entry):
            writer.name("set")
            entry.write(to: &writer)
        case .unset(let path):
            writer.name("unset")
            writer.beginArray()
            for name in path { writer.string(name) }
            writer.endArray()
        case .expire(let time): writer.member("expire", time)
        case .remote(let remote, let endsHold):
            writer.name("remote")
            remote.write(to: &writer)
            if endsHold { writer.member("endsHold", true) }
        case .dropRemote: writer.member("dropRemote", true)
        case .rollback(let overrides, let hold):
            writer.name("rollback")
            writer.beginObject()
            writer.name("override")
            overrides.write(to: &writer)
            if let hold {
                writer.name("hold")
                hold.write(to: &writer)
            }
            writer.endObject()
        case .release: writer.member("release", true)
        case .experiment(let layer):
            writer.name("experiment")
            layer.write(to: &writer)
        }
        writer.endObject()
    }

    func apply(to layers: inout Layers) {
        switch self {
        case .set(let entry): layers.override.set(entry)
        case .unset(let path): _ = layers.override.unset(path)
        case .expire(let time): _ = layers.override.expire(at: time)
        case .remote(let remote, let endsHold):
            layers.remote = remote
            if endsHold { layers.hold = nil }
        case .dropRemote: layers.dropRemote()
        case .rollback(let overrides, let hold):
            layers.override = overrides
            layers.hold = hold
        case .release: layers.hold = nil
        case .experiment(let layer): layers.experiment = layer
        }
    }
}
