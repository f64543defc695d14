import LarderProtocol
import NIOCore
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
    /// The buffered bytes that are not only reserved for replies.
    private let queued = Atomic<Int>(0)
    private let files = Atomic<Int>(0)
    private let leases = Atomic<Int>(0)
    private let descriptors: DescriptorCount
    /// The number of reservations for large replies (``ReplyReservation``), and their bytes.
    private let reservations = Atomic<Int>(0)
    private let reserved = Atomic<Int>(0)

    init(of peer: PeerCredentials, _ descriptors: DescriptorCount = DescriptorCount()) {
        self.descriptors = descriptors
        user = peer.uid
        isTrusted = peer.isTrusted
    }

    /// Whether the user has no connections, requests or files, and no task of a disconnected client builds a reply.
    /// Closing a file may take long, so a user may have files without a connection.
    fileprivate var isUnused: Bool {
        connections.load(ordering: .relaxed) == 0 && requests.load(ordering: .relaxed) == 0
            && files.load(ordering: .relaxed) == 0 && reservations.load(ordering: .relaxed) == 0
    }

    /// The buffered bytes that are only reserved for replies.
    var reservedBytes: Int { reserved.load(ordering: .relaxed) }

    fileprivate func mayConnect(_ limits: ConnectionLimits) -> Bool {
        isTrusted || connections.load(ordering: .relaxed) < limits.effectiveConnectionsPerUser
    }

    // MARK: Subscriptions

    /// Reserves a place for a subscription.
    func addSubscription(_ limits: ConnectionLimits) throws(UsageRefusal) {
        if Self.take(subscriptions, upTo: isTrusted ? .max : limits.subscriptionsPerUser) { return }
        throw exceeded(
            .subscriptions, "subscriptions", limits.subscriptionsPerUser, "subscriptionsPerUser", "end some")
    }

    /// Releases the place of a subscription.
    func removeSubscription() { subscriptions.subtract(1, ordering: .relaxed) }

    // MARK: Image leases

    /// Reserves a place for a lease.
    func addLease(_ limits: ConnectionLimits) throws(UsageRefusal) {
        if Self.take(leases, upTo: isTrusted ? .max : limits.leasesPerUser) { return }
        throw exceeded(
            .leases, "leases", limits.leasesPerUser, "leasesPerUser", "release some with image.release")
    }

    /// Releases the places of `count` leases.
    func removeLeases(_ count: Int) { leases.subtract(count, ordering: .relaxed) }

    // MARK: Requests that are not answered yet

    /// Reserves a place for a request.
    func addRequest(_ limits: ConnectionLimits) throws(UsageRefusal) {
        if Self.take(requests, upTo: isTrusted ? .max : limits.requestsInFlightPerUser) { return }
        throw exceeded(
            .requests, "unanswered requests", limits.requestsInFlightPerUser, "requestsInFlightPerUser",
            "retry after some have been answered")
    }

    /// Reserves a place regardless of the limit, for a committed request whose client has disconnected.
    func addOrphanedRequest() { requests.add(1, ordering: .relaxed) }

    /// Releases the place of a request.
    func removeRequest() { requests.subtract(1, ordering: .relaxed) }

    // MARK: Bytes

    /// Adds buffered bytes. A negative number releases them.
    func charge(_ bytes: Int) {
        queued.add(bytes, ordering: .relaxed)
    }

    /// The buffered bytes, including those that are only reserved for replies.
    private var chargedBytes: Int { queued.load(ordering: .relaxed) + reservedBytes }

    /// Whether the buffered bytes exceed the limit.
    /// - Parameter bytes: a part of the buffered bytes that does not count
    func exceedsQueuedBytes(_ limits: ConnectionLimits, without bytes: Int = 0) -> Bool {
        chargedBytes - bytes > limits.queuedBytesPerUser
    }

    /// Whether the buffered bytes exceed the limit, without those that are only reserved for replies.
    func exceedsQueuedBytesWithoutReservations(_ limits: ConnectionLimits) -> Bool {
        queued.load(ordering: .relaxed) > limits.queuedBytesPerUser
    }

    /// Charges the user for a large reply before it is built. The only reservation of a user is never refused, because
    /// the user could otherwise never get a reply that may be larger than the limit.
    /// - Parameter bytes: an upper bound of the memory that building and encoding the reply takes
    /// - Throws: a refusal if the user has another reservation, and the buffered bytes would exceed the limit
    func reserveReply(_ bytes: Int, _ limits: ConnectionLimits) throws(UsageRefusal) -> ReplyReservation {
        let isOnly = reservations.add(1, ordering: .relaxed).oldValue == 0
        do throws(UsageRefusal) {
            try changeReserved(by: bytes, to: bytes, isOnly: isOnly, limits)
        } catch {
            reservations.subtract(1, ordering: .relaxed)
            throw error
        }
        return ReplyReservation(bytes, self)
    }

    /// Changes the size of a reservation by `change` to `bytes`.
    fileprivate func changeReserved(
        by change: Int, to bytes: Int, isOnly: Bool, _ limits: ConnectionLimits
    ) throws(UsageRefusal) {
        let total = adjustReserved(by: change)
        if change <= 0 || isOnly || total <= limits.queuedBytesPerUser { return }
        adjustReserved(by: -change)
        throw UsageRefusal(
            .queuedBytes,
            "user \(user) would have more than \(limits.queuedBytesPerUser) bytes queued "
                + "(limits.queuedBytesPerUser), because this reply may need \(bytes) bytes and others are being made; "
                + "read the pending replies, then retry")
    }

    /// Changes the size of a reservation by `change`, regardless of the limit.
    /// - Returns: the buffered bytes
    @discardableResult
    fileprivate func adjustReserved(by change: Int) -> Int {
        reserved.add(change, ordering: .relaxed).newValue + queued.load(ordering: .relaxed)
    }

    fileprivate var hasOneReservation: Bool { reservations.load(ordering: .relaxed) == 1 }

    fileprivate func endReservation(_ bytes: Int) {
        adjustReserved(by: -bytes)
        reservations.subtract(1, ordering: .relaxed)
    }

    /// The refusal of a request because of the buffered bytes.
    func queuedBytesExceeded(_ limits: ConnectionLimits) -> UsageRefusal {
        UsageRefusal(
            .queuedBytes,
            "user \(user) has more than \(limits.queuedBytesPerUser) bytes queued (limits.queuedBytesPerUser); read "
                + "the pending replies, then retry")
    }

    // MARK: Files

    /// Counts an open file that is in transit to a client, or whose descriptor a client has passed to the agent.
    func addFile() {
        files.add(1, ordering: .relaxed)
        descriptors.add(1)
    }

    /// Stops counting a file that ``addFile()`` has counted.
    func removeFile() {
        files.subtract(1, ordering: .relaxed)
        descriptors.add(-1)
    }

    /// Whether the limits of ``refusalOfFile(_:)`` permit another file. Each read of a connection asks this.
    func hasRoomForFile(_ limits: ConnectionLimits) -> Bool {
        isTrusted
            || files.load(ordering: .relaxed) < limits.effectiveConnectionsPerUser
                && descriptors.value < limits.connectionsOfOthers
    }

    /// Returns an error if too many files are open for the connections of the user or of all users, in transit to a
    /// client or passed by one; otherwise nil. The limits are those of connections, because each file uses a descriptor
    /// of the agent, as a connection does.
    func refusalOfFile(_ limits: ConnectionLimits) -> WireError? {
        if hasRoomForFile(limits) { return nil }
        let limit = limits.effectiveConnectionsPerUser
        if files.load(ordering: .relaxed) < limit {
            return WireError(
                .limitExceeded,
                "the agent has \(limits.connectionsOfOthers) connections and files in transit, the maximum for users "
                    + "other than root; retry later, or request paths instead of descriptors")
        }
        return WireError(
            .limitExceeded,
            "user \(user) has \(limit) open files in transit to or from its connections (limits.connectionsPerUser); "
                + "receive them first, or request paths instead of descriptors")
    }

    private func exceeded(
        _ kind: UsageRefusal.Limit, _ things: String, _ limit: Int, _ setting: String, _ advice: String
    ) -> UsageRefusal {
        UsageRefusal(
            kind,
            "user \(user) has \(limit) \(things) (limits.\(setting)); \(advice), or ask the administrator to raise the "
                + "limit")
    }

    private static func take(_ count: borrowing Atomic<Int>, upTo limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }
}

/// The number of connections and of files of all users. Each uses a descriptor of the agent.
final class DescriptorCount: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add(_ number: Int) { count.add(number, ordering: .relaxed) }
}

/// Memory that is charged to a user for a large reply, from before the reply is built until it was written or queued.
/// The charge ends when the last reference is released. A task that builds the reply keeps a reference, so that the
/// memory stays charged if the client disconnects.
final class ReplyReservation: Sendable {
    private let size: Atomic<Int>
    private let user: UserUsage

    fileprivate init(_ bytes: Int, _ user: UserUsage) {
        size = Atomic(bytes)
        self.user = user
    }

    deinit { user.endReservation(bytes) }

    var bytes: Int { size.load(ordering: .relaxed) }

    /// Changes the number of reserved bytes. Called by one task at a time.
    /// - Throws: a refusal if the reservation would grow, the user has another one, and the buffered bytes would exceed
    ///   the limit. The reservation is then unchanged.
    func resize(to bytes: Int, _ limits: ConnectionLimits) throws(UsageRefusal) {
        try user.changeReserved(by: bytes - self.bytes, to: bytes, isOnly: user.hasOneReservation, limits)
        size.store(bytes, ordering: .relaxed)
    }

    /// Changes the number of reserved bytes to those that are in use, regardless of the limit. Called by one task at a
    /// time.
    func adjust(to bytes: Int) {
        user.adjustReserved(by: bytes - self.bytes)
        size.store(bytes, ordering: .relaxed)
    }
}

/// The users that have a connection, a request, a file or a reservation for a reply.
final class UserUsageTable: Sendable {
    /// All event loops share the table.
    private let users = Mutex<[Int: UserUsage]>([:])
    private let descriptorCount = DescriptorCount()

    /// The number of connections, and of files in transit to clients or passed by them.
    var descriptors: Int { descriptorCount.value }

    /// Adds a connection.
    /// - Returns: the usage of its user; nil if the user has reached the limit of connections
    func join(_ peer: PeerCredentials, _ limits: ConnectionLimits) -> UserUsage? {
        users.withLock { users in
            let known = users[peer.uid]
            let usage = known ?? UserUsage(of: peer, descriptorCount)
            guard usage.mayConnect(limits) else { return nil }
            if known == nil {
                // Users whose last file or reservation has ended after their last connection are still in the table,
                // because that does not use the lock.
                for (user, other) in users where other.isUnused { users[user] = nil }
                users[peer.uid] = usage
            }
            usage.connections.add(1, ordering: .relaxed)
            descriptorCount.add(1)
            return usage
        }
    }

    /// Removes a connection.
    func leave(_ usage: UserUsage) {
        users.withLock { users in
            usage.connections.subtract(1, ordering: .relaxed)
            descriptorCount.add(-1)
            if usage.isUnused { users[usage.user] = nil }
        }
    }

    /// Releases the place and the memory of a request that outlived its connection.
    func removeOrphanedRequest(_ usage: UserUsage, chargedBytes: Int) {
        users.withLock { users in
            usage.charge(-chargedBytes)
            usage.removeRequest()
            if usage.isUnused { users[usage.user] = nil }
        }
    }

    var count: Int { users.withLock { $0.count } }

    /// The error for a client whose user has reached the limit of connections.
    static func refusal(of peer: PeerCredentials, _ limits: ConnectionLimits) -> WireError {
        WireError(
            .limitExceeded,
            "user \(peer.uid) has \(limits.effectiveConnectionsPerUser) connections (limits.connectionsPerUser); close "
                + "some, or ask the administrator to raise the limit")
    }
}

/// The resources that clients may use. Each description begins with the name of the member of `limits` in the settings.
package struct ConnectionLimits: Sendable, Equatable {
    /// `connections`: the maximum number of open connections, 1 to 1,000,000. Default: 16384.
    package var connections = 16384
    /// Whether ``connections`` was lowered to fit into the process's limit of open files.
    package var isBoundByDescriptors = false
    /// `connectionsPerUser`: the maximum number of open connections of one user, 1 to 1,000,000. Nil (the default) for
    /// a quarter of ``connections``.
    package var connectionsPerUser: Int?
    /// `subscriptionsPerConnection`: the maximum number of subscriptions, 1 to 65536. Default: 64.
    package var subscriptionsPerConnection = 64
    /// `subscriptionsPerUser`: the maximum number of subscriptions on all connections of one user, 1 to 10,000,000.
    /// Default: 65536.
    package var subscriptionsPerUser = 65536
    /// `requestsInFlightPerConnection`: the maximum number of unanswered requests, 1 to 65536. Default: 64.
    package var requestsInFlightPerConnection = 64
    /// `requestsInFlightPerUser`: the maximum number of unanswered requests on all connections of one user, 1 to
    /// 10,000,000. Default: 8192.
    package var requestsInFlightPerUser = 8192
    /// `leasesPerUser`: the maximum number of image leases on all connections of one user, 1 to 10,000,000. Default:
    /// 65536.
    package var leasesPerUser = 65536
    /// `queuedBytesPerUser`: the maximum number of bytes buffered for the connections of one user, in incomplete lines,
    /// unanswered requests and unread replies, 1 MiB to 1 TiB. Default: 256 MiB.
    package var queuedBytesPerUser = 256 << 20
    /// `lineBytes`: the maximum length of a request in bytes, 1 KiB to 64 MiB. Default: 1 MiB.
    package var lineBytes = 1 << 20
    /// `sendTimeoutSeconds`: how long a client may accept no output before it is disconnected, 1 s to 1 hour. Default:
    /// 30 s.
    package var sendTimeout = Duration.seconds(30)

    package init() {}

    /// The maximum number of connections of all users except root and the agent's own user, so that these two can always
    /// connect. The files that clients pass and receive count like connections, because each uses a descriptor, too.
    var connectionsOfOthers: Int { connections - min(16, connections / 4) }

    /// The maximum number of connections of one user.
    var effectiveConnectionsPerUser: Int { connectionsPerUser ?? max(1, connections / 4) }

    /// ``sendTimeout`` as the type that event loops use.
    var sendTimeoutAmount: TimeAmount { TimeAmount(sendTimeout) }
}
