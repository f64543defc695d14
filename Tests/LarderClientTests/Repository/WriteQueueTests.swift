import LarderJSON
import LarderProtocol
import Testing

@testable import LarderClient

@Suite("Write queue of a repository")
struct WriteQueueTests {
    private func write(_ number: Int, _ name: String? = nil, value: JSONValue = 1, count: Int = 1) -> WriteQueue.Write {
        let path = JSONPath(["c", name ?? "\(number)"])
        return WriteQueue.Write(
            number: number, path: path,
            changes: Array(repeating: ConfigApply.Change(.set(value), at: path), count: count))
    }

    private func numbers(_ queue: inout WriteQueue) -> [Int] { queue.nextBatch().map(\.number) }

    private func add(_ writes: WriteQueue.Write..., to queue: inout WriteQueue) -> [Bool] {
        writes.map { queue.add($0) }
    }

    @Test("the first write starts sending, and writes that arrive meanwhile form the next batch")
    func batches() {
        var queue = WriteQueue()
        #expect(add(write(1), to: &queue) == [true])
        #expect(numbers(&queue) == [1])
        #expect(add(write(2), write(3), to: &queue) == [false, false])
        #expect(numbers(&queue) == [2, 3])
        #expect(numbers(&queue) == [])
        #expect(add(write(4), to: &queue) == [true])
    }

    @Test("writes of one model are in different batches, in order")
    func sameModel() {
        var queue = WriteQueue()
        _ = add(write(1, "a"), write(2, "a"), write(3, "b"), write(4, "a"), to: &queue)
        #expect(numbers(&queue) == [1, 3])
        #expect(numbers(&queue) == [2])
        #expect(numbers(&queue) == [4])
    }

    @Test("models whose names differ only in Unicode normalization are different models")
    func normalization() {
        var queue = WriteQueue()
        _ = add(write(1, "\u{E9}"), write(2, "e\u{301}"), to: &queue)
        #expect(numbers(&queue) == [1, 2])
    }

    @Test("a batch has at most 1,000 changes")
    func changeLimit() {
        var queue = WriteQueue()
        _ = add(write(1, count: 600), write(2, count: 400), write(3, count: 1), to: &queue)
        #expect(numbers(&queue) == [1, 2])
        #expect(numbers(&queue) == [3])
    }

    @Test("a batch has at most 512 KiB, and a larger write is sent alone")
    func sizeLimit() {
        var queue = WriteQueue()
        let half = JSONValue.string(String(repeating: "x", count: ChangeChunk.maxBytes / 2))
        let large = JSONValue.string(String(repeating: "x", count: ChangeChunk.maxBytes * 2))
        _ = add(write(1, value: half), write(2, value: half), write(3, value: large), write(4), to: &queue)
        #expect(numbers(&queue) == [1])
        #expect(numbers(&queue) == [2])
        #expect(numbers(&queue) == [3])
        #expect(numbers(&queue) == [4])
    }

    @Test("a write can be removed until it is in flight")
    func removal() {
        var queue = WriteQueue()
        _ = add(write(1), write(2), to: &queue)
        let removed = [queue.remove(1), queue.remove(1)]
        #expect(removed == [true, false])
        #expect(numbers(&queue) == [2])
        let isRemoved = queue.remove(2)
        #expect(!isRemoved)
        #expect(numbers(&queue) == [])
    }

    @Test(
        "a failed batch is divided, without the write that has failed, before the others, and its writes can be removed"
    )
    func division() {
        var queue = WriteQueue()
        _ = add(write(1), write(2), write(3), write(4), write(5), write(6), to: &queue)
        let batch = queue.nextBatch()
        _ = add(write(7), write(8), to: &queue)
        let failed = queue.divide(batch, without: JSONPath(["c", "2"]))
        #expect(failed?.number == 2)
        let isRemoved = queue.remove(4)
        #expect(isRemoved)
        #expect(numbers(&queue) == [1, 3])
        #expect(numbers(&queue) == [5, 6])
        #expect(numbers(&queue) == [7, 8])
        #expect(numbers(&queue) == [])
    }

    @Test("if it is unknown which write has failed, the batch is halved until it has one write")
    func halves() {
        var queue = WriteQueue()
        _ = add(write(1), write(2), write(3), to: &queue)
        var batch = queue.nextBatch()
        #expect(queue.divide(batch, without: nil) == nil)
        batch = queue.nextBatch()
        #expect(batch.map(\.number) == [1, 2])
        #expect(queue.divide(batch, without: JSONPath(["other"])) == nil)
        #expect(numbers(&queue) == [1])
        #expect(numbers(&queue) == [2])
        #expect(numbers(&queue) == [3])
        #expect(numbers(&queue) == [])
    }

    @Test("parts whose writes were all removed are not sent")
    func emptyParts() {
        var queue = WriteQueue()
        _ = add(write(1), write(2), to: &queue)
        let batch = queue.nextBatch()
        #expect(queue.divide(batch, without: nil) == nil)
        let removed = [queue.remove(1), queue.remove(2)]
        #expect(removed == [true, true])
        #expect(numbers(&queue) == [])
        #expect(add(write(3), to: &queue) == [true])
    }
}
