import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage

@Suite("Recovery at start")
struct RecoveredStateTests {
    private static func layers(_ value: Int) -> Layers {
        var layers = Layers()
        layers.override.set(OverrideEntry(path: ["n"], value: .int(value), setAt: 0))
        return layers
    }

    private static func generation(_ revision: Int, sequence: Int) -> Generation {
        let layers = layers(revision)
        return Generation(
            revision: revision, digest: SnapshotDigest(of: layers.resolved()), publishedAt: revision,
            journalSequence: sequence, released: 0, causes: [ChangeCause(.set)], layers: layers)
    }

    /// A record that sets `n` to its revision.
    private static func record(_ sequence: Int, revision: Int) -> JournalRecord {
        JournalRecord(
            sequence: sequence, revision: revision,
            digest: SnapshotDigest.text(of: layers(revision).resolved()),
            publishedAt: revision, released: 7,
            operations: [.set(OverrideEntry(path: ["n"], value: .int(revision), setAt: 0))],
            causes: [ChangeCause(.unset)])
    }

    private static func journal(_ records: [JournalRecord], _ ending: JournalReader.Ending, lost: Int)
        -> JournalReader
    {
        var reader = JournalReader([], after: 0)
        (reader.records, reader.ending, reader.lost) = (records, ending, lost)
        return reader
    }

    @Test("records are replayed on the newest generation, and each record with a matching digest becomes a snapshot")
    func replay() {
        var state = RecoveredState()
        state.begin(with: Self.generation(3, sequence: 1))
        var uncertain = Self.record(3, revision: 5)
        uncertain.digest = "of layers that a source has changed in the meantime"
        let records = [Self.record(2, revision: 4), uncertain, Self.record(4, revision: 6)]
        state.replay(Self.journal(records, .clean, lost: 0))
        #expect(state.layers.resolved() == ["n": 6])
        #expect(state.revision == 6 && state.journalSequence == 4 && state.released == 7)
        #expect(state.causes == [ChangeCause(.unset)])
        #expect(state.unwritten.map(\.revision) == [4, 6])
        #expect(state.highestPossiblyPublished == 0 && state.highestSeen == 0)
    }

    @Test(
        "numbering continues after the revisions that lost records may have had",
        arguments: [JournalReader.Ending.torn, .damaged])
    func lost(ending: JournalReader.Ending) {
        var state = RecoveredState()
        state.begin(with: Self.generation(3, sequence: 1))
        state.reservedBound = 1000
        state.replay(Self.journal([Self.record(2, revision: 4)], ending, lost: 5))
        #expect(state.highestPossiblyPublished == 1005)
        #expect(state.numbers.firstRevision(isCertain: true) == 1006)
    }

    @Test("in a new epoch, numbering continues far above the revisions of the previous epoch")
    func otherEpoch() {
        var state = RecoveredState()
        state.begin(with: Self.generation(3, sequence: 1))
        state.skipUnknownRevisions()
        #expect(state.highestSeen == 3 + RevisionReservation.unknownRevisions)
    }
}
