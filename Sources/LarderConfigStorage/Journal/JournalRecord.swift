import Crypto
package import LarderConfigModel
import LarderEncoding
import LarderJSON

/// One accepted change on its way into a generation: what a local client handed over, on disk before it is acknowledged.
///
/// A record is one line: sixteen hex digits, the beginning of the SHA-256 of the rest; a space; JSON; LF. Records
/// carry consecutive sequence numbers. A zero byte behind the last one says that it is the last: the journal is written
/// from its start again once a generation holds all of it, so that remainders of older records may stand there.
package struct JournalRecord: Sendable {
    package var sequence: Int
    /// The revision of the snapshot with these changes.
    package var revision: Int
    /// Its digest.
    package var digest: String
    /// In milliseconds since 1970.
    package var publishedAt: Int
    /// Reservations up to this bound are settled: nothing above ``revision`` was published under them.
    package var released: Int
    var operations: [LayerOperation]
    /// What the snapshot was published for; empty where it was not published for this record.
    package var causes: [ChangeCause] = []

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
    package init?(_ line: ArraySlice<UInt8>) {
        guard let content = Self.content(of: line),
            let value = try? JSONValue(parsing: Array(content), maximumDepth: 256),
            let sequence = value["sequence"]?.int, let revision = value["revision"]?.int,
            let digest = value["digest"]?.string, let publishedAt = value["publishedAt"]?.int,
            let released = value["released"]?.int, let operations = value["operations"],
            [sequence, revision, released].allSatisfy(ExactIntegers.range.contains)
        else { return nil }
        self.sequence = sequence
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.released = released
        self.operations = []
        for operation in operations.elements {
            guard let operation = LayerOperation(operation) else { return nil }
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

    private static func checksum(_ content: ArraySlice<UInt8>) -> [UInt8] {
        Array(SHA256.hash(data: content).hex.utf8.prefix(16))
    }
}
