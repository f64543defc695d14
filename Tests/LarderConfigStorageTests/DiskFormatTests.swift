import ConfigTestSupport
import Foundation
import LarderJSON
import LarderPlatform
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage

/// The exact bytes of the files in the state directory. These formats are published. A change needs a migration, and a
/// test that reads a file of the previous format.
@Suite("Disk formats of the configuration")
struct DiskFormatTests {
    // MARK: The journal

    /// A record with every kind of operation.
    private static let record = #"""
        {"sequence":7,"revision":12,"digest":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","publishedAt":1700000000007,"released":1024,\#
        "operations":[{"set":{"path":["search","limit"],"setAt":1700000000001,"expiresAt":1700000060001,"setBy":{"pid":42,"uid":1000,"command":"larder"},"value":20}},\#
        {"unset":["search","limit"]},\#
        {"expire":1700000060001},\#
        {"remote":{"origin":"https://config.example/app.json","updatedAt":1700000000000,"version":"v7","versionSeries":"main",\#
        "etag":"\"abc\"","lastModified":"Tue, 14 Nov 2023 22:13:20 GMT",\#
        "experiments":{"member":"experiments","list":[{"name":"wide"}]},"document":{"search":{"limit":15}}},\#
        "endsHold":true},\#
        {"remote":{"origin":"push","updatedAt":1700000000004,"pushedBy":{"pid":42,"uid":1000,"command":"larder"},"document":{"a":1}}},\#
        {"dropRemote":true},\#
        {"rollback":{"override":[{"path":["search"],"setAt":1700000000002,"value":{"depth":1.50,"limit":null}},\#
        {"path":["search","limit"],"setAt":1700000000001,"expiresAt":1700000060001,"setBy":{"pid":42,"uid":1000,"command":"larder"},"value":20},\#
        {"path":["café","a b"],"setAt":1700000000003,"value":[true,"x\ny"]}],\#
        "hold":{"revision":5,"since":1700000000005,"rule":"untilReleased","host":{"updatedAt":1699999999999,"document":{"search":{"limit":10}}},"remote":null}}},\#
        {"rollback":{"override":[]}},\#
        {"release":true},\#
        {"experiment":{"updatedAt":1700000000006,"overlays":[{"name":"wide","remote":true,"values":{"search":{"limit":30}}}]}}],\#
        "causes":[{"kind":"set","path":["search","limit"],"peer":{"pid":42,"uid":1000,"command":"larder"}},\#
        {"kind":"rollback","revision":5},\#
        {"kind":"refresh","origin":"https://config.example/app.json"}]}
        """#

    private static let recordLine = "892fb4665375f6a4 \(record)\n"

    @Test("a journal record is decoded, and encoded to the same bytes")
    func journalRecord() throws {
        let line = Array(Self.recordLine.utf8)
        let record = try #require(JournalRecord(line.dropLast()))
        #expect(record.sequence == 7)
        #expect(record.revision == 12)
        #expect(record.released == 1024)
        #expect(record.operations.count == 10)
        #expect(record.causes.map(\.kind) == [.set, .rollback, .refresh])
        guard case .set(let entry) = record.operations[0] else { return #expect(Bool(false)) }
        #expect(entry.path == ["search", "limit"])
        #expect(entry.value == 20)
        #expect(entry.setAt == 1_700_000_000_001)
        #expect(entry.expiresAt == 1_700_000_060_001)
        #expect(entry.setBy == Peer(pid: 42, uid: 1000, command: "larder"))
        #expect(String(decoding: record.encoded(), as: UTF8.self) == Self.recordLine)
    }

    @Test("reasons and login users are kept in journal records and generations")
    func reasons() throws {
        let peer = Peer(pid: 42, uid: 0, command: "larder", loginUID: 1000)
        let entry = OverrideEntry(path: ["a"], value: 1, setAt: 5, setBy: peer, reason: "load test")
        let pushed = RemoteDocument(
            document: ["b": 1], origin: "push", updatedAt: 6, pushedBy: peer, reason: "new cluster")
        let causes = [
            ChangeCause(.apply, path: ["a"], peer: peer, reason: "load test"),
            ChangeCause(.increment, path: ["n"], peer: peer),
        ]
        let digest = String(repeating: "cd", count: 32)
        let written = JournalRecord(
            sequence: 1, revision: 2, digest: digest, publishedAt: 3, released: 4,
            operations: [.set(entry), .remote(pushed, endsHold: false)], causes: causes)
        let record = try #require(JournalRecord(written.encoded().dropLast()))
        #expect(record.causes == causes)
        guard case .set(let readEntry) = record.operations[0], case .remote(let readPushed, _) = record.operations[1]
        else { return #expect(Bool(false)) }
        #expect(readEntry == entry)
        #expect(readPushed.reason == "new cluster" && readPushed.pushedBy == peer)

        let generation = Generation(
            revision: 2, digest: SnapshotDigest(known: digest), publishedAt: 3, journalSequence: 1, released: 4,
            causes: causes, layers: Layers(remote: pushed, override: OverrideLayer(entries: [entry])))
        let decoded = try GenerationFile.decode(
            GenerationFile.encode(generation, epoch: "00ff00ff00ff00ff", namespace: "default"))
        #expect(decoded.causes == causes)
        #expect(decoded.layers.override.entries == [entry])
        #expect(decoded.layers.remote?.reason == "new cluster")
    }

    @Test("a journal record names the overrides that have expired")
    func expiredOverrides() throws {
        let expired = [
            ExpiringOverride(path: ["search", "limit"], expiresAt: 5), ExpiringOverride(path: ["é"], expiresAt: 6),
        ]
        let digest = String(repeating: "cd", count: 32)
        let written = JournalRecord(
            sequence: 1, revision: 2, digest: digest, publishedAt: 3, released: 4,
            operations: [.expireOverrides(expired)])
        let text = String(decoding: written.encoded(), as: UTF8.self)
        let operation = #"{"expired":[{"path":["search","limit"],"expiresAt":5},{"path":["é"],"expiresAt":6}]}"#
        #expect(text.contains(operation))
        let record = try #require(JournalRecord(written.encoded().dropLast()))
        guard case .expireOverrides(let read) = record.operations[0] else { return #expect(Bool(false)) }
        #expect(read == expired)
    }

    @Test("the journal file contains the records, and then zeros up to 262,144 bytes")
    func journalFile() throws {
        try Self.withArchive { (archive, directory) throws in
            var line = Array(Self.recordLine.utf8)
            let record = try #require(JournalRecord(line.dropLast()))
            try archive.journal.append(record, afterGenerationWith: 6)
            line += Array(repeating: 0, count: 262_144 - line.count)
            #expect(try Self.bytes(directory + "/journal") == line)
        }
    }

    // MARK: Generations

    /// The second line of a generation file, which follows the header, with every layer.
    private static let body = #"""
        {"format":1,"epoch":"00ff00ff00ff00ff","namespace":"default","revision":12,\#
        "digest":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","publishedAt":1700000000007,\#
        "journal":7,"released":1024,"bytes":345,"causes":[{"kind":"set","path":["search","limit"],"peer":{"pid":42,"uid":1000,"command":"larder"}},\#
        {"kind":"rollback","revision":5},\#
        {"kind":"refresh","origin":"https://config.example/app.json"}],\#
        "layers":{"defaults":{"updatedAt":1699999999999,"document":{"search":{"limit":10}}},\#
        "host":{"updatedAt":1699999999999,"document":{"search":{"limit":10}}},\#
        "remote":{"origin":"https://config.example/app.json","updatedAt":1700000000000,"version":"v7","versionSeries":"main",\#
        "etag":"\"abc\"","lastModified":"Tue, 14 Nov 2023 22:13:20 GMT",\#
        "experiments":{"member":"experiments","list":[{"name":"wide"}]},"document":{"search":{"limit":15}}},\#
        "override":[{"path":["search"],"setAt":1700000000002,"value":{"depth":1.50,"limit":null}},\#
        {"path":["search","limit"],"setAt":1700000000001,"expiresAt":1700000060001,"setBy":{"pid":42,"uid":1000,"command":"larder"},"value":20},\#
        {"path":["café","a b"],"setAt":1700000000003,"value":[true,"x\ny"]}],\#
        "hold":{"revision":5,"since":1700000000005,"rule":"untilReleased",\#
        "refused":{"version":"v7","versionSeries":"main","digest":"abababababababababababababababababababababababababababababababab","origin":"https://config.example/app.json"},\#
        "defaults":{"updatedAt":1699999999999,"document":{"search":{"limit":10}}},"host":null,\#
        "remote":{"origin":"push","updatedAt":1700000000004,"pushedBy":{"pid":42,"uid":1000,"command":"larder"},"document":{"a":1}}},\#
        "experiment":{"updatedAt":1700000000006,"overlays":[{"name":"wide","remote":true,"values":{"search":{"limit":30}}}]},\#
        "locks":[["search","depth"],["with.dot"]]},\#
        "published":{"override":[]}}
        """#

    private static let generation = """
        {"format":1,"sha256":"2c54f83c089414c04e2cd1d250e8597813f8227e0d4943c81ae65178f433d16d"}
        \(body)

        """

    @Test("a generation is decoded, and encoded to the same bytes")
    func generationFile() throws {
        let generation = try GenerationFile.decode(Array(Self.generation.utf8))
        #expect(generation.revision == 12)
        #expect(generation.journalSequence == 7)
        #expect(generation.released == 1024)
        #expect(generation.layers.remote?.version == UpstreamVersion("v7", series: "main"))
        #expect(generation.layers.hold?.revision == 5)
        #expect(generation.layers.hold?.holds(.host) == true)
        #expect(generation.layers.rules.locks.paths.map(\.segments) == [["search", "depth"], ["with.dot"]])
        #expect(generation.published != nil)
        let written = GenerationFile.encode(generation, epoch: "00ff00ff00ff00ff", namespace: "default")
        #expect(String(decoding: written, as: UTF8.self) == Self.generation)
    }

    @Test("a generation file is named after its revision, with 16 digits")
    func generationName() throws {
        try Self.withArchive { (archive, directory) throws in
            try archive.generations.write(GenerationFile.decode(Array(Self.generation.utf8)))
            let path = directory + "/generations/0000000000000012.json"
            #expect(try Self.bytes(path) == Array(Self.generation.utf8))
            #expect(try archive.restore().revision == 12)
        }
    }

    // MARK: Overrides and holds

    private static let overrides = #"""
        [{"path":["search"],"setAt":1700000000002,"value":{"depth":1.50,"limit":null}},\#
        {"path":["search","limit"],"setAt":1700000000001,"expiresAt":1700000060001,"setBy":{"pid":42,"uid":1000,"command":"larder"},"value":20},\#
        {"path":["café","a b"],"setAt":1700000000003,"value":[true,"x\ny"]}]
        """#

    @Test("overrides are decoded with their expiry and setter, and encoded to the same bytes")
    func overrideLayer() throws {
        var layer = try #require(OverrideLayer(JSONValue(parsing: Self.overrides)))
        #expect(Self.written { layer.write(to: &$0) } == Self.overrides)
        let rest = #""café":{"a b":[true,"x\ny"]}}"#
        #expect(
            Layers(override: layer).resolved().compactText == #"{"search":{"depth":1.50,"limit":20},"# + rest)
        let hasExpired = layer.expire(at: 1_700_000_060_001)
        #expect(hasExpired)
        #expect(Layers(override: layer).resolved().compactText == #"{"search":{"depth":1.50},"# + rest)
    }

    private static let hold = #"""
        {"revision":5,"since":1700000000005,"rule":"untilReleased","by":{"pid":42,"uid":1000,"command":"larder"},\#
        "refused":{"version":"v7","versionSeries":"main","digest":"abababababababababababababababababababababababababababababababab","origin":"https://config.example/app.json"},\#
        "defaults":{"updatedAt":1699999999999,"document":{"search":{"limit":10}}},"host":null,\#
        "remote":{"origin":"push","updatedAt":1700000000004,"pushedBy":{"pid":42,"uid":1000,"command":"larder"},"document":{"a":1}}}
        """#

    @Test("a hold is decoded, and encoded to the same bytes, with null for a held layer without content")
    func hold() throws {
        let hold = try #require(RollbackHold(JSONValue(parsing: Self.hold)))
        #expect(hold.files[.host] != nil)
        #expect(hold.files[.host]?.content == nil)
        #expect(hold.remote?.content?.pushedBy?.pid == 42)
        #expect(hold.rejected?.version == UpstreamVersion("v7", series: "main"))
        #expect(Self.written { hold.write(to: &$0) } == Self.hold)
    }

    @Test(
        "a hold that an earlier version stored without a rule gets the default rule for its document versions",
        arguments: [("v8", "v7", HoldRule.untilNewer), ("v8", "9fceb02", .untilReleased)])
    func holdWithoutRule(refused: String, shown: String, rule: HoldRule) throws {
        let text = #"""
            {"revision":5,"since":1700000000005,"refused":{"version":"\#(refused)","digest":"abab","origin":"push"},\#
            "remote":{"origin":"push","updatedAt":1700000000004,"version":"\#(shown)","document":{"a":1}}}
            """#
        let hold = try #require(RollbackHold(JSONValue(parsing: text)))
        #expect(hold.rule == rule)
        #expect(hold.peer == nil)
    }

    @Test(
        "the hold of a rollout, which an earlier version stored, is decoded, and encoded to the same bytes",
        arguments: [
            (#""rule":"rollout""#, HoldRule.rollout, nil),
            (#""rule":"untilNewer","refusal":"too large""#, .untilNewer, "too large"),
        ])
    func holdOfRollout(members: String, rule: HoldRule, refusal: String?) throws {
        let text = #"""
            {"revision":5,"since":1700000000005,\#(members),"refused":{"version":"8","digest":"abab","origin":"push"},\#
            "remote":{"origin":"push","updatedAt":1700000000004,"version":"7","document":{"a":1}}}
            """#
        let hold = try #require(RollbackHold(JSONValue(parsing: text)))
        #expect(hold.rule == rule && hold.rejection == refusal)
        #expect(Self.written { hold.write(to: &$0) } == text)
    }

    // MARK: The epoch and reserved revisions

    @Test("the epoch file contains the epoch and the identities of the machine, directory and lock file")
    func epochFile() throws {
        try Self.withTemporaryDirectory { directory in
            let epoch = try StateDirectory(path: directory, machine: "m", files: LocalFileSystem()).epoch
            let text = String(decoding: try Self.bytes(directory + "/epoch"), as: UTF8.self)
            let pattern = /([0-9a-f]{16})\nmachine m\ndirectory \d+ (-|\d+\.\d{9})\nlock \d+ (-|\d+\.\d{9})\n/
            #expect(text.wholeMatch(of: pattern)?.1 == epoch[...])
        }
    }

    @Test("the file of reserved revisions contains the bound and a checksum of 16 hex digits")
    func reservation() throws {
        try Self.withArchive { (archive, directory) throws in
            try archive.reservation.reserve(1025)
            #expect(try Self.bytes(directory + "/reserved") == Array("1025 3cff389da36d34ee\n".utf8))
            #expect(try archive.restore().reservedBound == 1025)
        }
    }

    // MARK: Helpers

    private static func bytes(_ path: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: URL(filePath: path)))
    }

    private static func written(_ write: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        write(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func withTemporaryDirectory(_ body: (String) throws -> Void) throws {
        let directory = NSTemporaryDirectory() + "/larder-format-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try body(directory)
    }

    private static func withArchive(_ body: (ConfigArchive, String) throws -> Void) throws {
        try withTemporaryDirectory { directory in
            let archive = ConfigArchive(
                namespace: "default", epoch: "00ff00ff00ff00ff", directory: directory, files: LocalFileSystem(),
                logger: .silent)
            _ = try archive.restore()
            try body(archive, directory)
        }
    }
}
