import Foundation
import LarderDigest
import LarderEncoding
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

/// Earlier versions of this program could show a new document to some clients first, under a revision of its own. These
/// tests read state directories in their format: version 1 of a document was published as revision 2, and version 2 was
/// shown to some clients as revision 3 or later.
@Suite("State of a version with rollouts")
struct RolloutStateTests {
    private static let peer = #"{"pid":7,"uid":0,"command":"app"}"#
    private static let first =
        #"{"origin":"push","updatedAt":1000000,"version":"1","pushedBy":\#(peer),"document":{"v":1}}"#
    private static let second =
        #"{"origin":"push","updatedAt":1000001,"version":"2","pushedBy":\#(peer),"document":{"v":2}}"#
    private static let refused = #"{"version":"2","digest":"\#(sha256(#"{"v":2}"#))","origin":"push"}"#
    private static let rollout =
        #"{"revision":2,"since":1000001,"rule":"rollout","refused":\#(refused),"remote":\#(first)}"#
    private static let rolledBack =
        #"{"revision":2,"since":1000002,"rule":"untilNewer","by":\#(peer),"refusal":"too large","#
        + #""refused":\#(refused),"remote":\#(first)}"#
    /// The operations of the first two journal records.
    private static let push = #"{"remote":\#(first)}"#
    private static let begin = #"{"remote":\#(second),"rollout":{"revision":2,"since":1000001}}"#

    private let fixture = StoreFixture.local(clock: ManualClock())

    private static func sha256(_ text: String) -> String { SHA256.hash(text.utf8).hex }

    private func write(_ text: String, to name: String) throws {
        try FileManager.default.createDirectory(
            atPath: fixture.directory + "/generations", withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(fileURLWithPath: fixture.directory + "/" + name))
    }

    private func reserve(_ bound: Int) throws {
        try write("\(bound) \(Self.sha256("reserved \(bound)").prefix(16))\n", to: "reserved")
    }

    /// Writes a generation.
    /// - Parameters:
    ///   - document: the resolved configuration
    ///   - rest: the members after `causes`
    private func write(
        generation revision: Int, of document: String, journal: Int, released: Int, _ rest: String
    ) throws {
        let body =
            #"{"format":1,"epoch":"00ff00ff00ff00ff","namespace":"default","revision":\#(revision),"digest":""#
            + Self.sha256(document) + #"","publishedAt":1000000,"journal":\#(journal),"released":\#(released),"bytes":"#
            + #"\#(document.utf8.count),"causes":[{"kind":"push","peer":\#(Self.peer)}],\#(rest)}"#
        let header = #"{"format":1,"sha256":"\#(Self.sha256(body))"}"#
        try write(header + "\n" + body + "\n", to: "generations/000000000000000\(revision).json")
    }

    private struct Record {
        let revision: Int
        /// The resolved configuration.
        let document: String
        let released: Int
        let operation: String
        var causes = ""
    }

    /// Writes a generation without a document, and journal records that begin a rollout.
    /// - Parameter last: another journal record; nil for none
    private func write(_ last: Record? = nil) throws {
        try write(generation: 1, of: "{}", journal: 0, released: 0, #""layers":{"override":[]}"#)
        let begun = [
            Record(revision: 2, document: #"{"v":1}"#, released: 1025, operation: Self.push),
            Record(revision: 2, document: #"{"v":1}"#, released: 1025, operation: Self.begin),
        ]
        var journal = ""
        for (index, record) in (begun + [last].compactMap(\.self)).enumerated() {
            let digest = Self.sha256(record.document)
            let text =
                #"{"sequence":\#(index + 1),"revision":\#(record.revision),"digest":"\#(digest)","#
                + #""publishedAt":1000000,"released":\#(record.released),"operations":[\#(record.operation)],"#
                + #""causes":[\#(record.causes)]}"#
            journal += Self.sha256(text).prefix(16) + " " + text + "\n"
        }
        try write(journal + String(repeating: "\0", count: 262_144 - journal.utf8.count), to: "journal")
    }

    @Test("the document of a rollout in progress is published at the start, above all revisions that clients have seen")
    func inProgress() async throws {
        defer { fixture.remove() }
        try reserve(2049)
        try write()
        try write(
            generation: 2, of: #"{"v":1}"#, journal: 2, released: 1025,
            #""layers":{"remote":\#(Self.second),"override":[],"hold":\#(Self.rollout)},"#
                + #""published":{"remote":\#(Self.first),"override":[]}"#)
        var revision = 0
        try await fixture.withStore { store async throws in
            revision = store.revision
            #expect(store.value == ["v": 2] && revision == 2050)
            #expect(store.publication.status.hold == nil && store.publication.status.upstreamVersion == "2")
            #expect(await store.pastSnapshots().map(\.causes).first == [ChangeCause(.start)])
            #expect(try await store.value(ofRevision: 2) == ["v": 1])
        }
        try await fixture.withStore { store async throws in
            #expect(store.value == ["v": 2] && store.revision == revision)
            let document = SourceDocument(value: ["v": 3], version: UpstreamVersion("3"))
            _ = try await store.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
            #expect(store.value == ["v": 3])
            _ = try await store.rollBack(toRevision: 2, by: nil)
            #expect(store.value == ["v": 1])
        }
    }

    @Test("after a crash during a rollout, the journal still has each published snapshot")
    func crash() async throws {
        defer { fixture.remove() }
        try reserve(3073)
        try write(
            Record(
                revision: 4, document: #"{"v":1,"a":1}"#, released: 2049,
                operation: #"{"set":{"path":["a"],"setAt":1000002,"value":1}}"#,
                causes: #"{"kind":"set","path":["a"]}"#))
        // The first store is not stopped. This simulates another crash.
        let crashed = try await fixture.open()
        try await fixture.withStore { store async throws in
            #expect(store.value == ["v": 2, "a": 1])
            #expect(crashed.revision == 3074 && store.revision >= crashed.revision)
            #expect(store.publication.status.hold == nil)
            #expect(try await store.value(ofRevision: 2) == ["v": 1])
            #expect(try await store.value(ofRevision: 4) == ["v": 1, "a": 1])
        }
        withExtendedLifetime(crashed) {}
    }

    @Test("a rollout that was published keeps its revision, and the history has its reason")
    func published() async throws {
        defer { fixture.remove() }
        try reserve(2049)
        try write(
            Record(
                revision: 4, document: #"{"v":2}"#, released: 2049, operation: #"{"release":true}"#,
                causes: #"{"kind":"rolloutPublished","reason":"accepted by app"}"#))
        for _ in 0..<2 {
            try await fixture.withStore { store async throws in
                #expect(store.value == ["v": 2] && store.revision == 4 && store.publication.status.hold == nil)
                #expect(await store.pastSnapshots().first?.causes == [ChangeCause(.release, reason: "accepted by app")])
                #expect(try await store.value(ofRevision: 2) == ["v": 1])
            }
        }
    }

    @Test("a rollout that was rolled back keeps its hold and reason until a newer document arrives")
    func rolledBack() async throws {
        defer { fixture.remove() }
        try reserve(2049)
        try write(
            Record(
                revision: 4, document: #"{"v":1}"#, released: 2049,
                operation: #"{"rollback":{"override":[],"hold":\#(Self.rolledBack)}}"#,
                causes: #"{"kind":"rolloutRolledBack","peer":\#(Self.peer),"reason":"too large"}"#))
        let peer = Peer(pid: 7, uid: 0, command: "app")
        for _ in 0..<2 {
            try await fixture.withStore { store async throws in
                #expect(store.value == ["v": 1] && store.revision == 4)
                let hold = try #require(store.publication.status.hold)
                #expect(hold.rule == .untilNewer && hold.peer == peer && hold.rejected?.version?.text == "2")
                #expect(hold.reason == "the rollout was rolled back: too large")
                let causes = await store.pastSnapshots().first?.causes
                #expect(causes == [ChangeCause(.rollback, peer: peer, reason: "too large")])
            }
        }
        try await fixture.withStore { store async throws in
            let document = SourceDocument(value: ["v": 3], version: UpstreamVersion("3"))
            _ = try await store.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
            #expect(store.value == ["v": 3] && store.publication.status.hold == nil)
        }
    }
}
