import LarderProtocol
import Synchronization

/// The resources in use by the connections of one user, over all event loops.
///
/// Root and the user who runs the agent are limited in ``heldBytes`` only: both could end the agent anyway, and must be able
/// to connect while other users exhaust its resources. Their buffered memory is still limited, because a program that does
/// not read is more often a mistake than an attack.
final class UserUsage: Sendable {
    /// Buffers from this size on are refused if the user has too much buffered. Smaller ones are always served; the number
    /// of connections bounds them.
    static let largeBytes = 64 * 1024

    let user: Int
    private let isTrusted: Bool
    fileprivate let connections = Atomic<Int>(0)
    private let subscriptions = Atomic<Int>(0)
    private let requests = Atomic<Int>(0)
    private let heldBytes = Atomic<Int>(0)
    private let files = Atomic<Int>(0)

    init(of peer: PeerCredentials) {
        user = peer.uid
        isTrusted = peer.isTrusted
    }

    /// Whether the user has no connection and no request.
    fileprivate var isUnused: Bool {
        connections.load(ordering: .relaxed) == 0 && requests.load(ordering: .relaxed) == 0
    }

    fileprivate func mayConnect(_ limits: ConnectionLimits) -> Bool {
        isTrusted || connections.load(ordering: .relaxed) < limits.effectiveConnectionsPerUser
    }

    // MARK: Subscriptions

    /// Takes a place for a subscription.
    /// - Throws: `limitExceeded`
    func addSubscription(_ limits: ConnectionLimits) throws(WireError) {
        if Self.take(subscriptions, upTo: isTrusted ? .max : limits.subscriptionsPerUser) { return }
        throw exceeded(
            "subscriptions", limits.subscriptionsPerUser, "subscriptionsPerUser", "end some that are not needed")
    }

    /// Returns the place.
    func removeSubscription() { subscriptions.subtract(1, ordering: .relaxed) }

    // MARK: Requests that are not answered yet

    /// Takes a place for a request.
    /// - Throws: `limitExceeded`
    func addRequest(_ limits: ConnectionLimits) throws(WireError) {
        if Self.take(requests, upTo: isTrusted ? .max : limits.requestsInFlightPerUser) { return }
        throw exceeded(
            "requests that wait for their reply", limits.requestsInFlightPerUser, "requestsInFlightPerUser",
            "send it again when others are answered")
    }

    /// Takes a place in any case: for a committed request of a client that is gone.
    func addOrphanedRequest() { requests.add(1, ordering: .relaxed) }

    /// Returns the place.
    func removeRequest() { requests.subtract(1, ordering: .relaxed) }

    // MARK: Bytes

    /// Adds buffered bytes; a negative number releases them.
    func hold(_ bytes: Int) {
        heldBytes.add(bytes, ordering: .relaxed)
    }

    /// Whether more is buffered than the limit allows.
    func hasTooMuch(_ limits: ConnectionLimits) -> Bool {
        heldBytes.load(ordering: .relaxed) > limits.queuedBytesPerUser
    }

    /// Adds bytes of a request that was read already. A large request is refused if too much is buffered.
    /// - Returns: how many bytes to release later.
    func holdOrRefuse(_ bytes: Int, _ limits: ConnectionLimits) throws(WireError) -> Int {
        if bytes <= Self.largeBytes { return 0 }
        if hasTooMuch(limits) { throw tooMuch(limits) }
        hold(bytes)
        return bytes
    }

    /// The error of a request for which a large buffer is refused.
    func tooMuch(_ limits: ConnectionLimits) -> WireError {
        WireError(
            .limitExceeded,
            "more than limits.queuedBytesPerUser (\(limits.queuedBytesPerUser) bytes) wait for the connections of user "
                + "\(user); let them read what they asked for, and send it again")
    }

    // MARK: Files

    /// Counts a file that is open until a client has received it.
    func addFile() { files.add(1, ordering: .relaxed) }

    /// Counts it no more.
    func removeFile() { files.subtract(1, ordering: .relaxed) }

    /// Why another file cannot stay open until a client receives it; nil if it can. Files use descriptors of the agent as
    /// connections do, and a user may have as many of them.
    func refusalOfFile(_ limits: ConnectionLimits) -> WireError? {
        let most = limits.effectiveConnectionsPerUser
        if isTrusted || files.load(ordering: .relaxed) < most { return nil }
        return WireError(
            .limitExceeded,
            "\(most) open files wait for the connections of user \(user), as many as they may have connections by "
                + "limits.connectionsPerUser; receive those first, or ask for paths")
    }

    private func exceeded(_ things: String, _ limit: Int, _ setting: String, _ advice: String) -> WireError {
        WireError(
            .limitExceeded,
            "the connections of user \(user) have \(limit) \(things), as many as limits.\(setting) allows; \(advice), or "
                + "have the administrator raise it")
    }

    private static func take(_ count: borrowing Atomic<Int>, upTo limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }
}

/// The users who have a connection or a request.
final class UserUsageTable: Sendable {
    private let users = Mutex<[Int: UserUsage]>([:])

    /// Counts a new connection.
    /// - Returns: the resources in use by its user; nil if the user may have no more connections.
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        users.withLock { users in
            let usage = users[peer.uid] ?? UserUsage(of: peer)
            guard usage.mayConnect(limits) else { return nil }
            users[peer.uid] = usage
            usage.connections.add(1, ordering: .relaxed)
            return usage
        }
    }

    /// Removes a connection that has ended.
    func leave(_ usage: UserUsage) {
        users.withLock { users in
            usage.connections.subtract(1, ordering: .relaxed)
            Self.forgetIfUnused(usage, &users)
        }
    }

    /// Returns the place of a request that outlived its connection.
    func removeOrphanedRequest(_ usage: UserUsage) {
        users.withLock { users in
            usage.removeRequest()
            Self.forgetIfUnused(usage, &users)
        }
    }

    /// The number of users.
    var count: Int { users.withLock { $0.count } }

    private static func forgetIfUnused(_ usage: UserUsage, _ users: inout [Int: UserUsage]) {
        if usage.isUnused { users[usage.user] = nil }
    }

    /// The error of a client whose user may have no more connections.
    static func refusal(of peer: PeerCredentials, _ limits: ConnectionLimits) -> WireError {
        WireError(
            .limitExceeded,
            "user \(peer.uid) has \(limits.effectiveConnectionsPerUser) connections, as many as limits.connectionsPerUser "
                + "allows; close some, or have the administrator raise it")
    }
}
