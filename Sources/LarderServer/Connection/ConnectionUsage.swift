import LarderJSON
import LarderProtocol

/// The refusal of a request that exceeds a limit per user or per connection.
struct UsageRefusal: Error {
    enum Limit { case queuedBytes, requests, subscriptions, leases }

    let limit: Limit
    /// The error for the client: `limitExceeded`.
    let error: WireError

    init(_ limit: Limit, _ detail: String) {
        (self.limit, error) = (limit, WireError(.limitExceeded, detail))
    }
}

/// The resources that one connection uses. They count towards the limits of its user.
struct ConnectionUsage {
    /// If a subscription retains more than this number of bytes for its path, or its flags and their context, these are
    /// charged to the user. Smaller ones are bounded by the maximum number of subscriptions.
    private static let smallSubscriptionBytes = 1024
    /// A request of up to this number of bytes is admitted even if the user's buffered bytes exceed the limit,
    /// and no memory is reserved for a reply of up to this size. The maximum number of requests bounds their total.
    static let smallRequestBytes = 16 * 1024

    let limits: ConnectionLimits
    /// The resources used by all connections of the user.
    let user: UserUsage
    /// The number of buffered bytes that ``update(chargedBytes:)`` last charged to the user.
    private(set) var chargedBytes = 0
    /// The reserved bytes of the request whose reply is being written. The reply takes the place of the reservation, so
    /// ``refusalOfLargeWork()`` does not count it.
    var replacedBytes = 0

    init(limits: ConnectionLimits, user: UserUsage) {
        self.limits = limits
        self.user = user
    }

    /// Charges the user for `bytes` instead of the previous ``chargedBytes``.
    mutating func update(chargedBytes bytes: Int) {
        if bytes == chargedBytes { return }
        user.charge(bytes - chargedBytes)
        chargedBytes = bytes
    }

    /// The refusal of work that needs a buffer of more than ``UserUsage/largeBytes``, if the user's buffered bytes
    /// exceed the limit; otherwise nil.
    func refusalOfLargeWork() -> UsageRefusal? {
        user.exceedsQueuedBytes(limits, without: replacedBytes) ? user.queuedBytesExceeded(limits) : nil
    }

    /// Reserves memory for a reply before it is built.
    /// - Parameter bytes: an upper bound of the memory of the reply
    /// - Returns: the reservation; nil for a small reply
    func reserveReply(_ bytes: Int) throws(UsageRefusal) -> ReplyReservation? {
        bytes <= Self.smallRequestBytes ? nil : try user.reserveReply(bytes, limits)
    }

    /// Reserves a place for a pending request, and charges the user for its memory until the request completes.
    /// - Parameters:
    ///   - bytes: the memory that the request retains while it is pending
    ///   - batchBytes: the memory of the batch that contains the request; 0 for a request outside a batch
    func admitRequest(_ bytes: Int, batchBytes: Int) throws(UsageRefusal) {
        if max(bytes, batchBytes) > Self.smallRequestBytes, let refusal = refusalOfLargeWork() { throw refusal }
        try user.addRequest(limits)
        user.charge(bytes)
    }

    /// Reserves a place and memory for a committed request that starts after its connection has closed. The limits do
    /// not apply.
    func admitOrphan(_ bytes: Int) {
        user.addOrphanedRequest()
        user.charge(bytes)
    }

    /// Releases the places of `count` pending requests, and the memory that was charged for them.
    func removeRequests(_ count: Int, chargedBytes bytes: Int) {
        for _ in 0..<count { user.removeRequest() }
        if bytes > 0 { user.charge(-bytes) }
    }

    /// Reserves a place for a subscription, and memory for what it retains.
    /// - Parameters:
    ///   - retained: the memory of its path, or of its flags and their context, in bytes
    ///   - open: the number of subscriptions that the connection has
    /// - Returns: the number of bytes that are charged while the subscription is open; 0 if it retains few
    func admitSubscription(retaining retained: Int, open: Int) throws(UsageRefusal) -> Int {
        let bytes = retained > Self.smallSubscriptionBytes ? retained : 0
        if bytes > 0, let refusal = refusalOfLargeWork() { throw refusal }
        guard open < limits.subscriptionsPerConnection else {
            throw UsageRefusal(
                .subscriptions,
                "this connection has \(limits.subscriptionsPerConnection) subscriptions "
                    + "(limits.subscriptionsPerConnection); end one, or open another connection")
        }
        try user.addSubscription(limits)
        user.charge(bytes)
        return bytes
    }

    /// Releases the place of a subscription.
    func removeSubscription(chargedBytes bytes: Int) {
        user.removeSubscription()
        user.charge(-bytes)
    }
}
