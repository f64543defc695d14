import LarderJSON
import LarderClient
@testable import LarderClientCore
import LarderProtocol
import Testing

@Suite("Snapshot receiver")
struct SnapshotReceiverTests {
    private func snapshot(
        _ sequence: Int, _ revision: Int, _ value: JSONValue? = 1, epoch: String = "e1", skipped: Int = 0,
        reason: ConfigEvent.Reason = .change
    ) -> ConfigEvent {
        ConfigEvent(
            subscription: 1, sequence: sequence, skipped: skipped, namespace: "default", epoch: epoch,
            revision: revision, state: .fresh, content: .snapshot(value, reason))
    }

    private func patch(_ sequence: Int, _ revision: Int, from: Int, _ patch: JSONValue) -> ConfigEvent {
        ConfigEvent(
            subscription: 1, sequence: sequence, namespace: "default", epoch: "e1", revision: revision, state: .fresh,
            content: .patch(patch, from: from))
    }

    /// Calls `take()` outside of `#expect`, because the operands of `#expect` cannot be mutated.
    private func taken(_ receiver: inout SnapshotReceiver) -> LarderSnapshot? { receiver.take() }

    @Test("a revision that is older than or equal to the last one of its epoch is not delivered")
    func olderIgnored() throws {
        var receiver = SnapshotReceiver(mode: .snapshot)
        try receiver.receive(snapshot(1, 5))
        #expect(taken(&receiver)?.revision == 5)
        try receiver.receive(snapshot(2, 4))
        try receiver.receive(snapshot(3, 5))
        #expect(taken(&receiver) == nil)
        try receiver.receive(snapshot(4, 6))
        #expect(taken(&receiver)?.revision == 6)
    }

    @Test("a new epoch may begin with any revision")
    func newEpoch() throws {
        var receiver = SnapshotReceiver(mode: .snapshot)
        try receiver.receive(snapshot(1, 500))
        _ = receiver.take()
        receiver.begin()
        try receiver.receive(snapshot(1, 2, epoch: "e2", reason: .restart))
        #expect(taken(&receiver)?.revision == 2)
        #expect(receiver.resumption == .init(revision: 2, epoch: "e2"))
    }

    @Test("the newest snapshot is delivered, and each skipped one is counted once")
    func conflation() throws {
        var receiver = SnapshotReceiver(mode: .snapshot)
        try receiver.receive(snapshot(1, 1))
        try receiver.receive(snapshot(2, 2))
        try receiver.receive(snapshot(3, 7, skipped: 4))
        let waiting = receiver.take()
        let newest = try #require(waiting)
        #expect(newest.revision == 7)
        // The client skipped revisions 1 and 2, and the agent skipped 3 to 6.
        #expect(newest.skipped == 6)
        try receiver.receive(snapshot(4, 8))
        #expect(taken(&receiver)?.skipped == 0)
    }

    @Test("an event without a value becomes a snapshot whose value is nil")
    func absence() throws {
        var receiver = SnapshotReceiver(mode: .snapshot)
        try receiver.receive(snapshot(1, 1, nil))
        let waiting = receiver.take()
        let snapshot = try #require(waiting)
        #expect(snapshot.value == nil)
        #expect(throws: LarderClientError.self) { try snapshot.decode(Int.self) }
    }

    @Test("an event out of sequence is rejected")
    func sequenceGap() throws {
        var receiver = SnapshotReceiver(mode: .snapshot)
        try receiver.receive(snapshot(1, 1))
        #expect(throws: LarderClientError.self) { try receiver.receive(snapshot(3, 2)) }
        receiver.begin()
        try receiver.receive(snapshot(1, 2))
        #expect(taken(&receiver)?.revision == 2)
    }

    @Test("patches are applied to the last received document, even if the consumer has not taken that document")
    func patches() throws {
        var receiver = SnapshotReceiver(mode: .patch)
        try receiver.receive(snapshot(1, 1, ["a": 1, "b": 1], reason: .initial))
        try receiver.receive(patch(2, 2, from: 1, ["a": 2]))
        try receiver.receive(patch(3, 4, from: 2, ["b": .null, "c": 3]))
        let waiting = receiver.take()
        let newest = try #require(waiting)
        #expect(newest.value == ["a": 2, "c": 3])
        #expect(newest.skipped == 2)
        #expect(receiver.resumption == .init(revision: 4, epoch: "e1"))
    }

    @Test(
        "a patch whose base is not the last received revision is rejected; the next subscription gets a whole document"
    )
    func foreignPatch() throws {
        var receiver = SnapshotReceiver(mode: .patch)
        try receiver.receive(snapshot(1, 3, ["a": 1]))
        _ = receiver.take()
        #expect(throws: LarderClientError.self) { try receiver.receive(patch(2, 5, from: 4, ["a": 2])) }
        #expect(receiver.resumption == nil)
        receiver.begin()
        // The snapshot has the revision that was delivered before. It becomes the base of later patches, but is not
        // delivered again.
        try receiver.receive(snapshot(1, 3, ["a": 1], reason: .initial))
        #expect(taken(&receiver) == nil)
        try receiver.receive(patch(2, 4, from: 3, ["a": 2]))
        #expect(taken(&receiver)?.value == ["a": 2])
    }

    @Test("a patch before any snapshot is rejected")
    func patchWithoutBase() {
        var receiver = SnapshotReceiver(mode: .patch)
        #expect(throws: LarderClientError.self) { try receiver.receive(patch(1, 2, from: 1, [:])) }
    }
}
