import Testing

@testable import LarderImages

@Suite("Eviction")
struct EvictionTests {
    /// The policies that must keep the same rules.
    enum Kind: CaseIterable, Sendable {
        case leastRecentlyUsed, smallMainGhost

        func make() -> any EvictionPolicy {
            switch self {
            case .leastRecentlyUsed: LeastRecentlyUsed()
            case .smallMainGhost: SmallMainGhost()
            }
        }
    }

    private func filled(_ kind: Kind, _ count: Int, size: Int = 10) -> any EvictionPolicy {
        var policy = kind.make()
        for slot in 0..<UInt32(count) { policy.insert(slot, fingerprint: slot, size: size) }
        return policy
    }

    /// Slices until nothing more is found.
    private func drain(
        _ policy: inout any EvictionPolicy, limit: Int = 7, isHeld: (UInt32) -> Bool = { _ in false }
    ) -> [UInt32] {
        var victims: [UInt32] = []
        while true {
            let slice = policy.nextVictims(limit: limit, bytes: .max, isHeld: isHeld)
            #expect(slice.victims.count <= limit)
            victims += slice.victims
            if slice.isExhausted { return victims }
        }
    }

    @Test("what is never used goes in the order in which it came", arguments: Kind.allCases)
    func order(_ kind: Kind) {
        var policy = filled(kind, 100)
        #expect(policy.bytes == 1000)
        #expect(drain(&policy) == Array(0..<100))
        #expect(policy.count == 0)
        #expect(policy.bytes == 0)
        #expect(policy.nextVictims(limit: 5, bytes: .max) { _ in false } == EvictionSlice(isExhausted: true))
    }

    @Test("a slice ends when it has enough bytes or enough images", arguments: Kind.allCases)
    func slices(_ kind: Kind) {
        var policy = filled(kind, 100)
        #expect(policy.nextVictims(limit: 50, bytes: 25) { _ in false }.victims == [0, 1, 2])
        #expect(policy.nextVictims(limit: 2, bytes: 1000) { _ in false }.victims == [3, 4])
        #expect(policy.nextVictims(limit: 5, bytes: 0) { _ in false }.victims.isEmpty)
        #expect(policy.count == 95)
        #expect(policy.bytes == 950)
    }

    @Test("held images stay, whatever is asked, and go when they are held no more", arguments: Kind.allCases)
    func held(_ kind: Kind) {
        var policy = filled(kind, 1000)
        let first = drain(&policy) { $0 % 10 == 0 }
        #expect(Set(first) == Set((0..<1000).filter { $0 % 10 != 0 }))
        #expect(policy.count == 100)
        #expect(drain(&policy) { _ in true }.isEmpty)
        #expect(policy.count == 100)
        #expect(Set(drain(&policy)) == Set(stride(from: 0, to: 1000, by: 10)))
    }

    @Test("held images in front of others cost each slice a bounded number of looks", arguments: Kind.allCases)
    func bounded(_ kind: Kind) {
        var policy = filled(kind, 10_000)
        for slot in 0..<UInt32(9_000) { for _ in 0..<3 { policy.touch(slot) } }
        var looks = 0
        var slices = 0
        var victims: [UInt32] = []
        while victims.count < 500 {
            let slice = policy.nextVictims(limit: 10, bytes: .max) { slot in
                looks += 1
                return slot < 5_000
            }
            #expect(!slice.isExhausted)
            victims += slice.victims
            slices += 1
        }
        #expect(victims.allSatisfy { $0 >= 5_000 })
        #expect(looks < 60_000)
        if kind == .smallMainGhost { #expect(looks <= slices * 8 * 16) }
    }

    @Test("removing, touching and using slots again keeps the sums right", arguments: Kind.allCases)
    func model(_ kind: Kind) {
        var generator = SeededGenerator(seed: 3)
        var policy = kind.make()
        var sizes: [UInt32: Int] = [:]
        for step in 0..<30_000 {
            let slot = UInt32.random(in: 0..<200, using: &generator)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<5:
                guard sizes[slot] == nil else { break }
                let size = Int.random(in: 0...1000, using: &generator)
                sizes[slot] = size
                policy.insert(slot, fingerprint: UInt32.random(in: 0..<500, using: &generator), size: size)
            case 5..<8: policy.touch(slot)
            case 8:
                sizes[slot] = nil
                policy.remove(slot)
            default:
                let isHeld: (UInt32) -> Bool = { $0 % 7 == UInt32(step % 7) }
                let slice = policy.nextVictims(limit: 20, bytes: 3000, isHeld: isHeld)
                #expect(slice.bytes == slice.victims.reduce(0) { $0 + (sizes[$1] ?? -1) })
                #expect(!slice.victims.contains(where: isHeld))
                for victim in slice.victims { sizes[victim] = nil }
            }
            #expect(policy.count == sizes.count)
            #expect(policy.bytes == sizes.values.reduce(0, +))
        }
        var any: any EvictionPolicy = policy
        #expect(Set(drain(&any)) == Set(sizes.keys))
    }

    @Test("sizes beyond 4 GiB and slots nobody knows do no harm", arguments: Kind.allCases)
    func extremes(_ kind: Kind) {
        var policy = kind.make()
        policy.touch(5)
        policy.remove(5)
        policy.insert(3, fingerprint: 0, size: .max)
        policy.remove(3)
        policy.remove(3)
        #expect(policy.bytes == 0)
        #expect(policy.count == 0)
    }

    @Test("LRU: what was used last goes last")
    func leastRecentlyUsed() {
        var policy: any EvictionPolicy = filled(.leastRecentlyUsed, 5)
        policy.touch(0)
        policy.touch(2)
        #expect(drain(&policy) == [1, 3, 4, 0, 2])
    }

    @Test("S3-FIFO: twice used in the small queue stays, once does not, and who comes back is not new")
    func smallMainGhost() {
        var policy = SmallMainGhost()
        for slot in 0..<UInt32(10) { policy.insert(slot, fingerprint: slot + 100, size: 10) }
        policy.touch(0)
        policy.touch(1)
        policy.touch(1)
        #expect(policy.nextVictims(limit: 2, bytes: .max) { _ in false }.victims == [0, 2])
        // 0 is remembered and goes to the main queue, so that those behind it in the small one go first.
        policy.insert(0, fingerprint: 100, size: 10)
        policy.insert(11, fingerprint: 111, size: 10)
        let victims = policy.nextVictims(limit: 8, bytes: .max) { _ in false }.victims
        #expect(victims == [3, 4, 5, 6, 7, 8, 9, 11])
        #expect(policy.count == 2)
    }

    @Test("ghosts are bounded by what is held")
    func ghosts() {
        var policy = SmallMainGhost()
        for round in 0..<UInt32(50_000) {
            policy.insert(round % 500, fingerprint: round, size: 10_000)
            if policy.count == 500 { _ = policy.nextVictims(limit: 1, bytes: .max) { _ in false } }
            #expect(policy.ghostCount <= 500)
            if policy.count == 500 { break }
        }
        #expect(MemoryLayout<EvictionLists.Node>.stride <= 20)
    }
}
