import LarderImages

/// A simulated cache with a capacity in bytes. It records which objects are cached, but stores no content.
protocol ReplayPolicy {
    static var name: String { get }

    init(_ trace: Trace, capacity: Int)

    /// Requests the object at a position in the trace. Returns whether it was a hit. Objects larger than the capacity
    /// are never cached.
    mutating func request(_ position: Int) -> Bool
}

/// The eviction policy of the image cache (S3-FIFO).
struct S3FIFOReplay: ReplayPolicy {
    static let name = "s3-fifo"

    private let trace: Trace
    private let capacity: Int
    private var queues = S3FIFO()
    private var isCached: [Bool]

    init(_ trace: Trace, capacity: Int) {
        (self.trace, self.capacity) = (trace, capacity)
        isCached = [Bool](repeating: false, count: trace.sizes.count)
    }

    mutating func request(_ position: Int) -> Bool {
        // `S3FIFO` identifies objects by slots. Here the slot of an object is the number of the object.
        let slot = trace.requests[position]
        guard !isCached[Int(slot)] else {
            queues.touch(slot)
            return true
        }
        let size = trace.sizes[Int(slot)]
        guard size <= capacity else { return false }
        while queues.bytes + size > capacity {
            let slice = queues.nextVictims(limit: 64, bytes: queues.bytes + size - capacity) { _ in false }
            for victim in slice.victims { isCached[Int(victim)] = false }
        }
        // A substitute for a hash: multiplication by an odd number gives each object a different fingerprint.
        queues.insert(slot, fingerprint: slot &* 0x9E37_79B1, size: size)
        isCached[Int(slot)] = true
        return false
    }
}

/// Evicts the object that was requested least recently.
struct LRUReplay: ReplayPolicy {
    static let name = "lru"

    private let trace: Trace
    private let capacity: Int
    private var bytes = 0
    /// The position in the trace of the last request for each object; -1 if the object is not cached.
    private var lastRequest: [Int]
    /// The last request for every cached object is at or after this position in the trace.
    private var oldest = 0

    init(_ trace: Trace, capacity: Int) {
        (self.trace, self.capacity) = (trace, capacity)
        lastRequest = [Int](repeating: -1, count: trace.sizes.count)
    }

    mutating func request(_ position: Int) -> Bool {
        let object = Int(trace.requests[position])
        if lastRequest[object] >= 0 {
            lastRequest[object] = position
            return true
        }
        let size = trace.sizes[object]
        guard size <= capacity else { return false }
        while bytes + size > capacity {
            let candidate = Int(trace.requests[oldest])
            if lastRequest[candidate] == oldest {
                lastRequest[candidate] = -1
                bytes -= trace.sizes[candidate]
            }
            oldest += 1
        }
        lastRequest[object] = position
        bytes += size
        return false
    }
}

/// Evicts the object whose next request is the furthest away (Belady's MIN). A new object that would be evicted at once
/// is not cached. If all objects have the same size, no policy has more hits; otherwise the hits are close to the
/// maximum.
struct BeladyReplay: ReplayPolicy {
    static let name = "belady"

    private let trace: Trace
    private let capacity: Int
    private let next: [Int]
    private var bytes = 0
    /// The position in the trace of the next request for each object; -1 if the object is not cached.
    private var nextRequest: [Int]
    /// The positions of the next requests for cached objects, as a heap. Entries that no longer agree with
    /// ``nextRequest`` are skipped.
    private var furthest = MaxHeap()

    init(_ trace: Trace, capacity: Int) {
        (self.trace, self.capacity) = (trace, capacity)
        next = trace.nextRequests()
        nextRequest = [Int](repeating: -1, count: trace.sizes.count)
    }

    mutating func request(_ position: Int) -> Bool {
        let object = Int(trace.requests[position])
        let isHit = nextRequest[object] >= 0
        let size = trace.sizes[object]
        guard size <= capacity else { return false }
        // An object that is not requested again need not be cached.
        if next[position] == .max {
            if isHit { bytes -= size }
            nextRequest[object] = -1
            return isHit
        }
        if !isHit { bytes += size }
        nextRequest[object] = next[position]
        furthest.insert(next[position])
        while bytes > capacity, let candidate = furthest.removeMax() {
            let victim = Int(trace.requests[candidate])
            guard nextRequest[victim] == candidate else { continue }
            nextRequest[victim] = -1
            bytes -= trace.sizes[victim]
        }
        return isHit
    }
}

/// A binary max-heap of integers.
private struct MaxHeap {
    private var numbers: [Int] = []

    mutating func insert(_ number: Int) {
        numbers.append(number)
        var child = numbers.count - 1
        while child > 0, numbers[(child - 1) / 2] < numbers[child] {
            numbers.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeMax() -> Int? {
        guard let last = numbers.popLast() else { return nil }
        guard let max = numbers.first else { return last }
        numbers[0] = last
        var parent = 0
        while true {
            let left = 2 * parent + 1
            guard left < numbers.count else { return max }
            let right = left + 1
            let child = right < numbers.count && numbers[right] > numbers[left] ? right : left
            guard numbers[child] > numbers[parent] else { return max }
            numbers.swapAt(child, parent)
            parent = child
        }
    }
}
