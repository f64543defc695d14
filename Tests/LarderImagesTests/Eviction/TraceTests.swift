import TestSupport
import Testing

@testable import LarderImages

/// A model of a cache with a byte limit. It stores no images and shows which requests would be hits.
private struct TracedCache {
    var queues = S3FIFO()
    let capacity: Int
    private var slots: [Int: UInt32] = [:]
    private var keys: [UInt32: Int] = [:]
    private var free: [UInt32] = []
    private var next: UInt32 = 0

    init(capacity: Int) { self.capacity = capacity }

    /// Requests an image.
    /// - Returns: whether it was cached
    mutating func request(_ key: Int, size: Int) -> Bool {
        if let slot = slots[key] {
            queues.touch(slot)
            return true
        }
        while queues.bytes + size > capacity {
            let slice = queues.nextVictims(limit: 16, bytes: queues.bytes + size - capacity) { _ in false }
            for victim in slice.victims {
                if let old = keys.removeValue(forKey: victim) { slots[old] = nil }
                free.append(victim)
            }
        }
        let slot = free.popLast() ?? next
        if slot == next { next += 1 }
        slots[key] = slot
        keys[slot] = key
        queues.insert(slot, fingerprint: UInt32(truncatingIfNeeded: key &* 0x9E37_79B1), size: size)
        return false
    }
}

@Suite("Hit ratio with synthetic traces")
struct TraceTests {
    /// A Zipf distribution: the n-th image is requested 1/n^0.9 times as often as the first.
    private struct Zipf {
        private let sums: [Double]

        init(_ count: Int) {
            var sum = 0.0
            // n^-0.9 is n^0.1 / n. Newton's method computes the tenth root of n, exactly enough for this purpose.
            sums = (1...count).map { number in
                let target = Double(number)
                var root = 1.0 + target / Double(count)
                for _ in 0..<60 {
                    var power = 1.0
                    for _ in 0..<9 { power *= root }
                    root -= (power * root - target) / (10 * power)
                }
                sum += root / target
                return sum
            }
        }

        func sample(_ generator: inout SeededGenerator) -> Int {
            let point = Double.random(in: 0..<(sums.last ?? 1), using: &generator)
            var (low, high) = (0, sums.count - 1)
            while low < high {
                let middle = (low + high) / 2
                if sums[middle] > point { high = middle } else { low = middle + 1 }
            }
            return low
        }
    }

    private static let zipf = Zipf(10_000)

    /// Returns the hit ratio of ordinary requests, between which a crawler makes `scans` scans. Each scan requests
    /// 2,000 new images once. Their total size is about twice that of the cache.
    private func hitRatio(scans: Int) -> Double {
        var generator = SeededGenerator(seed: 42)
        func size(_ key: Int) -> Int { 5_000 + key &* 7919 % 40_000 }
        let capacity = 25_000 * 1_000
        var cache = TracedCache(capacity: capacity)
        var hits = 0
        let requests = 100_000
        var crawled = 1_000_000
        for number in 0..<requests {
            let key = Self.zipf.sample(&generator)
            if cache.request(key, size: size(key)) { hits += 1 }
            guard scans > 0, number % (requests / scans) == 0 else { continue }
            for _ in 0..<2_000 {
                crawled += 1
                _ = cache.request(crawled, size: size(crawled))
            }
            #expect(cache.queues.bytes <= capacity)
        }
        return Double(hits) / Double(requests)
    }

    @Test("fifty scans, each twice as large as the cache, lower the hit ratio of other requests by less than 0.05")
    func scans() {
        let calm = hitRatio(scans: 0)
        let crawled = hitRatio(scans: 50)
        #expect(calm > 0.6, "\(calm)")
        #expect(calm - crawled < 0.05, "\(calm) → \(crawled)")
    }
}
