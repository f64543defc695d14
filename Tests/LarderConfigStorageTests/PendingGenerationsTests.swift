import LarderConfigModel
import Testing

@testable import LarderConfigStorage

@Suite("Generations to write")
struct PendingGenerationsTests {
    private func generation(_ revision: Int, bytes: Int) -> Generation {
        Generation(
            revision: revision, digest: SnapshotDigest(known: "\(revision)"), publishedAt: 0, journalSequence: 0,
            released: 0, bytes: bytes, layers: Layers())
    }

    private func pending(_ generations: [Generation]) -> [Int] {
        var pending = PendingGenerations()
        for generation in generations { pending.add(generation) }
        #expect(pending.isEmpty == generations.isEmpty)
        let revisions = pending.takeAll().map(\.revision)
        #expect(pending.isEmpty && pending.takeAll().isEmpty)
        return revisions
    }

    @Test("the newest generations of the history are pending, each revision once")
    func count() {
        let capacity = GenerationHistory.capacity
        #expect(pending((1...capacity + 3).map { generation($0, bytes: 10) }) == Array(4...capacity + 3))
        #expect(pending([1, 2, 2, 3, 3].map { generation($0, bytes: 10) }) == [1, 2, 3])
        #expect(pending([]) == [])
    }

    @Test("large generations are pending up to a total size, and the newest one in any case")
    func bytes() {
        let (half, all) = (PendingGenerations.maxBytes / 2, PendingGenerations.maxBytes)
        #expect(pending([1, 2, 3].map { generation($0, bytes: half) }) == [2, 3])
        #expect(pending([1, 2].map { generation($0, bytes: all + 1) }) == [2])
        #expect(pending([generation(1, bytes: half), generation(2, bytes: all), generation(2, bytes: half)]) == [2])
        var reused = PendingGenerations()
        for revision in 1...5 {
            reused.add(generation(revision, bytes: all))
            #expect(reused.takeAll().map(\.revision) == [revision])
        }
    }
}
