import LarderImages
import NIOCore

/// The leases of one connection. Each lease keeps one reference to a blob.
///
/// A connection has one lease per blob, however often it requests the blob. The lease counts the requests. It ends when
/// the client has released it once for each request, when the latest of the requested expiry times has passed, or when
/// the connection ends.
struct ImageLeases {
    /// The maximum number of leases per connection.
    static let max = 4096

    private struct Lease {
        let digest: BlobDigest
        var uses = 1
        var end: NIODeadline
    }

    private var leases: [Int: Lease] = [:]
    private var numbers: [BlobDigest: Int] = [:]
    private var lastNumber = 0

    var count: Int { leases.count }

    /// Whether the maximum number of leases is reached.
    var isFull: Bool { leases.count >= Self.max }

    /// Counts another request for a blob that has a lease.
    ///
    /// - Parameter end: the expiry time; the distant future if the lease lasts until the connection ends
    /// - Returns: the number of the lease; nil if the blob has none. The lease does not keep the caller's reference to
    ///   the blob.
    mutating func extend(_ digest: BlobDigest, until end: NIODeadline) -> Int? {
        // Two lookups, because most cache hits extend a lease.
        guard let number = numbers[digest], let index = leases.index(forKey: number) else { return nil }
        leases.values[index].uses += 1
        if end > leases.values[index].end { leases.values[index].end = end }
        return number
    }

    /// Adds a lease on a blob that has none. The lease keeps the caller's reference to the blob.
    ///
    /// - Parameter end: the expiry time; the distant future if the lease lasts until the connection ends
    /// - Returns: the number of the lease
    mutating func add(_ digest: BlobDigest, until end: NIODeadline) -> Int {
        lastNumber += 1
        leases[lastNumber] = Lease(digest: digest, end: end)
        numbers[digest] = lastNumber
        return lastNumber
    }

    /// Releases a lease for one of the requests that it counts. After the last release, the lease ends.
    ///
    /// - Returns: whether the lease exists, and the blob whose reference the caller must release, if any
    mutating func release(_ number: Int) -> (isFound: Bool, released: BlobDigest?) {
        guard let lease = leases[number] else { return (false, nil) }
        guard lease.uses == 1 else {
            leases[number]?.uses = lease.uses - 1
            return (true, nil)
        }
        remove(number, lease)
        return (true, lease.digest)
    }

    /// The numbers of the expired leases, and when the next of the other leases expires. That time is the distant future
    /// if none of them expires.
    func expiry(at now: NIODeadline) -> (expired: [Int], next: NIODeadline) {
        var (expired, next) = ([Int](), NIODeadline.distantFuture)
        for (number, lease) in leases {
            if lease.end <= now { expired.append(number) } else { next = min(next, lease.end) }
        }
        return (expired, next)
    }

    /// Ends a lease if it has expired.
    ///
    /// - Returns: the blob whose reference the caller must release; nil if the lease has not ended now
    mutating func end(_ number: Int, ifExpiredAt now: NIODeadline) -> BlobDigest? {
        guard let lease = leases[number], lease.end <= now else { return nil }
        remove(number, lease)
        return lease.digest
    }

    /// Ends all leases.
    ///
    /// - Returns: the blobs whose references the caller must release
    mutating func endAll() -> [BlobDigest] {
        if leases.isEmpty { return [] }
        defer { (leases, numbers) = ([:], [:]) }
        return leases.values.map(\.digest)
    }

    private mutating func remove(_ number: Int, _ lease: Lease) {
        leases[number] = nil
        numbers[lease.digest] = nil
    }
}

/// The timer that ends expired leases of an event loop's connections.
final class LeaseTimer {
    /// The minimum time between two sweeps. A lease may last this much longer than requested.
    static let interval = TimeAmount.seconds(1)

    private let eventLoop: any EventLoop
    private var timer: Scheduled<Void>?
    private var next = NIODeadline.distantFuture
    private var last = NIODeadline.uptimeNanoseconds(0)
    private var isSweeping = false
    /// Ends the leases of all connections of the loop that have expired at `now`, then calls `end` with the time at
    /// which the next lease expires. That time is the distant future if none expires. A sweep may take several time
    /// slices.
    var sweep: (_ now: NIODeadline, _ end: @escaping (NIODeadline) -> Void) -> Void = { _, end in end(.distantFuture) }

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// Schedules a sweep for the expiry of a lease.
    func watch(until end: NIODeadline) {
        guard end < next else { return }
        timer?.cancel()
        if isSweeping {
            next = end
            return
        }
        next = max(end, last + Self.interval)
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: next) { self.run() }
    }

    private func run() {
        timer = nil
        next = .distantFuture
        last = eventLoop.now
        isSweeping = true
        sweep(last) { [self] end in
            isSweeping = false
            // The leases that were taken during the sweep are watched too.
            let first = min(end, next)
            next = .distantFuture
            watch(until: first)
        }
    }
}
