import TestSupport
import Testing

@testable import LarderImages

@Suite("Eviction by S3-FIFO")
struct EvictionTests {
    private func filled(_ count: Int, size: Int = 10) -> S3FIFO {
        var queues = S3FIFO()
        for slot in 0..<UInt32(count) { queues.insert(slot, fingerprint: slot, size: size) }
        return queues
    }

    /// Evicts in batches until no image is left to evict.
    private func drain(
        _ queues: inout S3FIFO, limit: Int = 7, isRetained: (UInt32) -> Bool = { _ in false }
    ) -> [UInt32] {
        var victims: [UInt32] = []
        while true {
            let batch = queues.nextVictims(limit: limit, bytes: .max, isRetained: isRetained)
            #expect(batch.victims.count <= limit)
            victims += batch.victims
            if batch.isExhausted { return victims }
        }
    }

    @Test("images that are never used are evicted in the order of arrival")
    func order() {
        var queues = filled(100)
        #expect(queues.bytes == 1000)
        #expect(drain(&queues) == Array(0..<100))
        #expect(queues.count == 0)
        #expect(queues.bytes == 0)
        #expect(queues.nextVictims(limit: 5, bytes: .max) { _ in false } == EvictionBatch(isExhausted: true))
    }

    @Test("a batch ends when it has enough bytes or enough images")
    func batches() {
        var queues = filled(100)
        #expect(queues.nextVictims(limit: 50, bytes: 25) { _ in false }.victims == [0, 1, 2])
        #expect(queues.nextVictims(limit: 2, bytes: 1000) { _ in false }.victims == [3, 4])
        #expect(queues.nextVictims(limit: 5, bytes: 0) { _ in false }.victims.isEmpty)
        #expect(queues.count == 95)
        #expect(queues.bytes == 950)
    }

    @Test("images in use are not evicted until they are no longer in use")
    func imagesInUse() {
        var queues = filled(1000)
        let first = drain(&queues) { $0 % 10 == 0 }
        #expect(Set(first) == Set((0..<1000).filter { $0 % 10 != 0 }))
        #expect(queues.count == 100)
        #expect(drain(&queues) { _ in true }.isEmpty)
        #expect(queues.count == 100)
        #expect(Set(drain(&queues)) == Set(stride(from: 0, to: 1000, by: 10)))
    }

    @Test("an image that was in use when it was last checked is found after its release")
    func releasedImages() {
        var queues = S3FIFO()
        func insert(_ slot: UInt32) { queues.insert(slot, fingerprint: slot, size: 10) }
        // Images that return enter the main queue.
        for slot in [10, 11] as [UInt32] { insert(slot) }
        #expect(drain(&queues) == [10, 11])
        for slot in [10, 11, 0, 1, 2] as [UInt32] { insert(slot) }
        #expect(queues.nextVictims(limit: 1, bytes: .max) { $0 < 10 }.victims == [10])
        // The images of the small queue have been released, and the last one of the main queue is in use now.
        let batch = queues.nextVictims(limit: 3, bytes: .max, releases: 1) { $0 == 11 }
        #expect(batch.victims == [0, 1, 2])
        #expect(queues.inconsistency == nil)
    }

    @Test("an image that is released behind the search for evictable images is found, and the search ends")
    func releasedBehindSearch() {
        var queues = filled(1000)
        var checks = 0
        #expect(queues.nextVictims(limit: 1, bytes: .max) { _ in true } == EvictionBatch())
        var batch = EvictionBatch()
        while batch == EvictionBatch() { batch = queues.nextVictims(limit: 1, bytes: .max, releases: 1) { $0 != 0 } }
        #expect(batch.victims == [0])
        // Other images are released all the time.
        batch = EvictionBatch()
        while !batch.isExhausted {
            checks += 1
            batch = queues.nextVictims(limit: 1, bytes: .max, releases: 1 + checks) { _ in true }
        }
        #expect(checks <= 2 * 1000 / 128 + 2)
        #expect(queues.inconsistency == nil)
    }

    @Test("images in use at the front of the queue cost each batch a bounded number of checks")
    func bounded() {
        var queues = filled(10_000)
        for slot in 0..<UInt32(9_000) { for _ in 0..<3 { queues.touch(slot) } }
        var checks = 0
        var batches = 0
        var victims: [UInt32] = []
        while victims.count < 500 {
            let batch = queues.nextVictims(limit: 10, bytes: .max) { slot in
                checks += 1
                return slot < 5_000
            }
            #expect(!batch.isExhausted)
            victims += batch.victims
            batches += 1
        }
        #expect(victims.allSatisfy { $0 >= 5_000 })
        #expect(checks < 60_000)
        #expect(checks <= batches * 8 * 16)
    }

    @Test("the counts and byte sums of the queues stay correct when slots are removed, touched and reused")
    func model() {
        var generator = SeededGenerator(seed: 3)
        var queues = S3FIFO()
        var sizes: [UInt32: Int] = [:]
        for step in 0..<30_000 {
            let slot = UInt32.random(in: 0..<200, using: &generator)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<5:
                guard sizes[slot] == nil else { break }
                let size = Int.random(in: 0...1000, using: &generator)
                sizes[slot] = size
                queues.insert(slot, fingerprint: UInt32.random(in: 0..<500, using: &generator), size: size)
            case 5..<8: queues.touch(slot)
            case 8:
                sizes[slot] = nil
                queues.remove(slot)
            default:
                let isRetained: (UInt32) -> Bool = { $0 % 7 == UInt32(step % 7) }
                let batch = queues.nextVictims(limit: 20, bytes: 3000, releases: step, isRetained: isRetained)
                #expect(batch.bytes == batch.victims.reduce(0) { $0 + (sizes[$1] ?? -1) })
                #expect(!batch.victims.contains(where: isRetained))
                for victim in batch.victims { sizes[victim] = nil }
            }
            #expect(queues.count == sizes.count)
            #expect(queues.bytes == sizes.values.reduce(0, +))
            if step.isMultiple(of: 100) {
                #expect(queues.inconsistency == nil)
                #expect(queues.slots == Set(sizes.keys))
            }
        }
        #expect(Set(drain(&queues)) == Set(sizes.keys))
    }

    @Test("sizes beyond 4 GiB and unknown slots do not corrupt the counts")
    func extremes() {
        var queues = S3FIFO()
        queues.touch(5)
        queues.remove(5)
        queues.insert(3, fingerprint: 0, size: .max)
        queues.remove(3)
        queues.remove(3)
        #expect(queues.bytes == 0)
        #expect(queues.count == 0)
    }

    @Test("the small queue evicts images used less than twice; an evicted image that returns enters the main queue")
    func smallAndMain() {
        var queues = S3FIFO()
        for slot in 0..<UInt32(10) { queues.insert(slot, fingerprint: slot + 100, size: 10) }
        queues.touch(0)
        queues.touch(1)
        queues.touch(1)
        #expect(queues.nextVictims(limit: 2, bytes: .max) { _ in false }.victims == [0, 2])
        // Image 0 was evicted and left a ghost (its fingerprint), and therefore enters the main queue. The images in
        // the small queue are evicted first.
        queues.insert(0, fingerprint: 100, size: 10)
        queues.insert(11, fingerprint: 111, size: 10)
        let victims = queues.nextVictims(limit: 8, bytes: .max) { _ in false }.victims
        #expect(victims == [3, 4, 5, 6, 7, 8, 9, 11])
        #expect(queues.count == 2)
    }

    @Test("the bytes of the cache, not its number of images, limit the ghosts of small images")
    func smallAfterLarge() {
        var queues = S3FIFO()
        for slot in 0..<UInt32(10) { queues.insert(slot, fingerprint: slot, size: 100_000) }
        for slot in 0..<UInt32(9) { for _ in 0..<3 { queues.touch(slot) } }
        for number in 0..<UInt32(1000) {
            while queues.bytes + 1000 > 1_000_000 { _ = queues.nextVictims(limit: 1, bytes: 1000) { _ in false } }
            queues.insert(10 + number, fingerprint: 10 + number, size: 1000)
        }
        // Nine large images and about 100 small ones are cached. The ghosts of the other 900 fit into 90 % of the
        // bytes.
        #expect((100...120).contains(queues.count))
        #expect(queues.ghostCount > 750)
    }

    @Test("the number of ghosts of empty images is limited")
    func emptyGhosts() {
        var queues = S3FIFO()
        for number in 0..<UInt32(50_000) {
            queues.insert(number % 2, fingerprint: number, size: 0)
            _ = queues.nextVictims(limit: 1, bytes: .max) { _ in false }
        }
        #expect(queues.ghostCount <= 2048)
    }

    @Test("a ghost that is taken out and added again is the newest in the queue")
    func repeatedGhost() {
        var ghosts = GhostQueue()
        func add(_ fingerprints: ClosedRange<UInt32>) {
            for fingerprint in fingerprints { ghosts.append(fingerprint, size: 1000, maximumBytes: 10_000) }
        }
        func take(_ fingerprint: UInt32) -> Bool { ghosts.take(fingerprint) }
        add(1...1)
        #expect(take(1))
        #expect(!take(1))
        #expect(ghosts.count == 0 && ghosts.bytes == 0)
        add(2...9)
        add(1...1)
        add(10...10)
        #expect(ghosts.count == 10 && ghosts.bytes == 10_000)
        // The first entry of 1 was the oldest. After its removal the entry of 2 is the oldest.
        add(11...11)
        #expect(!take(2))
        #expect(take(1))
        // Two keys with one fingerprint are one entry.
        add(3...3)
        #expect(ghosts.count == 9 && ghosts.bytes == 9000)
    }

    @Test("the ghost queue agrees with a simple list in random sequences of operations")
    func takenGhosts() {
        var ghosts = GhostQueue()
        var generator = SeededGenerator(seed: 5)
        var known: [UInt32] = []
        ghosts.append(1_000_000, size: 1000, maximumBytes: 1 << 20)
        for _ in 0..<20_000 {
            let fingerprint = UInt32.random(in: 0..<300, using: &generator)
            let isKnown = ghosts.take(fingerprint)
            #expect(isKnown == known.contains(fingerprint))
            known.removeAll { $0 == fingerprint }
            if Bool.random(using: &generator) {
                ghosts.append(fingerprint, size: 1000, maximumBytes: 100_000)
                known.append(fingerprint)
                if known.count > 100 { known.removeFirst() }
            }
            #expect(ghosts.count <= 101)
            #expect(ghosts.inconsistency == nil)
        }
    }

    @Test("with images of one size, there are at most nine ghosts for ten cached images")
    func ghosts() {
        var queues = S3FIFO()
        for number in 0..<UInt32(50_000) {
            // Images are evicted in the order of arrival, so the slot of the next image is always free.
            queues.insert(number % 500, fingerprint: number, size: 10_000)
            if queues.count == 500 { _ = queues.nextVictims(limit: 1, bytes: .max) { _ in false } }
            #expect(queues.ghostCount <= 450)
        }
        #expect(queues.count == 499)
        #expect(queues.ghostCount > 400)
    }

    @Test("a slot takes at most 20 bytes")
    func slotSize() {
        #expect(MemoryLayout<SlotLists.Node>.stride <= 20)
    }
}
