import LarderProtocol
import Synchronization

/// The resources used by the connections of one user, over all event loops.
///
/// Root and the agent's own user are exempt from all limits except the one on ``chargedBytes``: they could stop the
/// agent anyway, and must be able to connect when other users have exhausted the agent's resources. Their buffered
/// bytes are limited because a client that does not read is more often a bug than an attack.
final class UserUsage: Sendable {
    /// Buffers of more than this size are refused if the user's buffered bytes exceed the limit. Smaller buffers are
    /// always permitted. The maximum number of connections bounds their total.
    static let largeBytes = 64 * 1024

    let user: Int
    private let isTrusted: Bool
    fileprivate let connections = Atomic<Int>(0)
    private let subscriptions = Atomic<Int>(0)
    private let requests = Atomic<Int>(0)
    private let chargedBytes = Atomic<Int>(0)
    private let files = Atomic<Int>(0)
    private let leases = Atomic<Int>(0)

    init(of peer: PeerCredentials) {
        user = peer.uid
        isTrusted = peer.isTrusted
    }

    /// Whether the user has neither connections nor requests.
    fileprivate var isUnused: Bool {
        connections.load(ordering: .relaxed) == 0 && requests.load(ordering: .relaxed) == 0
    }

    fileprivate func mayConnect(_ limits: ConnectionLimits) -> Bool {
        isTrusted || connections.load(ordering: .relaxed) < limits.effectiveConnectionsPerUser
    }

    // MARK: Subscriptions

    /// Reserves a place for a subscription.
    /// - Throws: `limitExceeded`
    func addSubscription(_ limits: ConnectionLimits) throws(WireError) {
        if Self.take(subscriptions, upTo: isTrusted ? .max : limits.subscriptionsPerUser) { return }
        throw exceeded(
            "subscriptions", limits.subscriptionsPerUser, "subscriptionsPerUser", "end some")
    }

    /// Releases the place of a subscription.
    func removeSubscription() { subscriptions.subtract(1, ordering: .relaxed) }

    // MARK: Image leases

    /// Reserves a place for a lease.
    /// - Throws: `limitExceeded`
    func addLease(_ limits: ConnectionLimits) throws(WireError) {
        if Self.take(leases, upTo: isTrusted ? .max : limits.leasesPerUser) { return }
        throw exceeded(
            "leases", limits.leasesPerUser, "leasesPerUser", "release some with image.release")
    }

    /// Releases the places of `count` leases.
    func removeLeases(_ count: Int) { leases.subtract(count, ordering: .relaxed) }

    // MARK: Requests that are not answered yet

    /// Reserves a place for a request.
    /// - Throws: `limitExceeded`
    func addRequest(_ limits: ConnectionLimits) throws(WireError) {
        if Self.take(requests, upTo: isTrusted ? .max : limits.requestsInFlightPerUser) { return }
        throw exceeded(
            "unanswered requests", limits.requestsInFlightPerUser, "requestsInFlightPerUser",
            "retry after some have been answered")
    }

    /// Reserves a place regardless of the limit, for a committed request whose client has disconnected.
    func addOrphanedRequest() { requests.add(1, ordering: .relaxed) }

    /// Releases the place of a request.
    func removeRequest() { requests.subtract(1, ordering: .relaxed) }

    // MARK: Bytes

    /// Adds buffered bytes. A negative number releases them.
    func charge(_ bytes: Int) {
        chargedBytes.add(bytes, ordering: .relaxed)
    }

    /// Whether the buffered bytes exceed the limit.
    func exceedsQueuedBytes(_ limits: ConnectionLimits) -> Bool {
        chargedBytes.load(ordering: .relaxed) > limits.queuedBytesPerUser
    }

    /// Adds the bytes of a request that has been read. A large request is refused if the buffered bytes exceed the
    /// limit.
    /// - Returns: the number of bytes that were charged and must be released later; 0 for a small request
    func chargeOrRefuse(_ bytes: Int, _ limits: ConnectionLimits) throws(WireError) -> Int {
        if bytes <= Self.largeBytes { return 0 }
        if exceedsQueuedBytes(limits) { throw queuedBytesExceeded(limits) }
        charge(bytes)
        return bytes
    }

    /// The error for a request that is refused because of the buffered bytes.
    func queuedBytesExceeded(_ limits: ConnectionLimits) -> WireError {
        WireError(
            .limitExceeded,
            "user \(user) has more than \(limits.queuedBytesPerUser) bytes queued (limits.queuedBytesPerUser); read "
                + "the pending replies, then retry")
    }

    // MARK: Files

    /// Counts an open file that is in transit to a client, or whose descriptor a client has passed to the agent.
    func addFile() { files.add(1, ordering: .relaxed) }

    /// Stops counting a file that ``addFile()`` has counted.
    func removeFile() { files.subtract(1, ordering: .relaxed) }

    /// Returns an error if too many files are open for the user's connections, in transit to a client or passed by one;
    /// otherwise nil. The limit is the maximum number of connections per user, because each file uses a descriptor of
    /// the agent, as a connection does.
    func refusalOfFile(_ limits: ConnectionLimits) -> WireError? {
        let limit = limits.effectiveConnectionsPerUser
        if isTrusted || files.load(ordering: .relaxed) < limit { return nil }
        return WireError(
            .limitExceeded,
            "user \(user) has \(limit) open files in transit to or from its connections (limits.connectionsPerUser); "
                + "receive them first, or request paths instead of descriptors")
    }

    private func exceeded(_ things: String, _ limit: Int, _ setting: String, _ advice: String) -> WireError {
        WireError(
            .limitExceeded,
            "user \(user) has \(limit) \(things) (limits.\(setting)); \(advice), or ask the administrator to raise the "
                + "limit")
    }

    private static func take(_ count: borrowing Atomic<Int>, upTo limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }
}

/// The users that have a connection or a request.
final class UserUsageTable: Sendable {
    private let users = Mutex<[Int: UserUsage]>([:])

    /// Adds a connection.
    /// - Returns: the usage of its user; nil if the user has reached the limit of connections
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        users.withLock { users in
            let usage = users[peer.uid] ?? UserUsage(of: peer)
            guard usage.mayConnect(limits) else { return nil }
            users[peer.uid] = usage
            usage.connections.add(1, ordering: .relaxed)
            return usage
        }
    }

    /// Removes a connection.
    func leave(_ usage: UserUsage) {
        users.withLock { users in
            usage.connections.subtract(1, ordering: .relaxed)
            Self.forgetIfUnused(usage, &users)
        }
    }

    /// Releases the place of a request that outlived its connection.
    func removeOrphanedRequest(_ usage: UserUsage) {
        users.withLock { users in
            usage.removeRequest()
            Self.forgetIfUnused(usage, &users)
        }
    }

    var count: Int { users.withLock { $0.count } }

    private static func forgetIfUnused(_ usage: UserUsage, _ users: inout [Int: UserUsage]) {
        if usage.isUnused { users[usage.user] = nil }
    }

    /// The error for a client whose user has reached the limit of connections.
    static func refusal(of peer: PeerCredentials, _ limits: ConnectionLimits) -> WireError {
        WireError(
            .limitExceeded,
            "user \(peer.uid) has \(limits.effectiveConnectionsPerUser) connections (limits.connectionsPerUser); close "
                + "some, or ask the administrator to raise the limit")
    }
}
