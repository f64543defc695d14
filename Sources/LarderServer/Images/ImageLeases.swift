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

    /// Whether a lease on the blob can be taken.
    func hasRoom(for digest: BlobDigest) -> Bool { leases.count < Self.max || numbers[digest] != nil }

    /// Takes a lease on a blob that the caller has a reference to.
    ///
    /// - Parameter end: the expiry time; the distant future if the lease lasts until the connection ends
    /// - Returns: the number of the lease, and whether the lease keeps the caller's reference to the blob. If the lease
    ///   does not, the caller must release the reference.
    mutating func take(_ digest: BlobDigest, until end: NIODeadline) -> (number: Int, takesReference: Bool) {
        if let number = numbers[digest], let lease = leases[number] {
            leases[number]?.uses = lease.uses + 1
            if end > lease.end { leases[number]?.end = end }
            return (number, false)
        }
        lastNumber += 1
        leases[lastNumber] = Lease(digest: digest, end: end)
        numbers[digest] = lastNumber
        return (lastNumber, true)
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

    /// Ends the expired leases.
    ///
    /// - Returns: the blobs whose references the caller must release
    mutating func expire(at now: NIODeadline) -> [BlobDigest] {
        let expired = leases.filter { $0.value.end <= now }
        for (number, lease) in expired { remove(number, lease) }
        return expired.map(\.value.digest)
    }

    /// Ends all leases.
    ///
    /// - Returns: the blobs whose references the caller must release
    mutating func endAll() -> [BlobDigest] {
        if leases.isEmpty { return [] }
        defer { (leases, numbers) = ([:], [:]) }
        return leases.values.map(\.digest)
    }

    /// When the next lease expires; nil if none expires.
    var nextEnd: NIODeadline? {
        let ends = leases.values.lazy.map(\.end).filter { $0 < .distantFuture }
        return ends.min()
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
    /// Ends the leases of all connections of the loop that have expired at the given time. Returns the time at which
    /// the next lease expires; nil if none expires.
    var sweep: (NIODeadline) -> NIODeadline? = { _ in nil }

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// Schedules a sweep for the expiry of a lease.
    func watch(until end: NIODeadline) {
        guard end < next else { return }
        timer?.cancel()
        next = max(end, last + Self.interval)
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: next) { self.run() }
    }

    private func run() {
        timer = nil
        next = .distantFuture
        last = eventLoop.now
        if let end = sweep(last) { watch(until: end) }
    }
}
