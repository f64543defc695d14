import LarderJSON
import LarderProtocol

/// Why a request exceeds a limit per user or per connection.
struct UsageRefusal: Error {
    enum Limit { case queuedBytes, requests, subscriptions }

    let limit: Limit
    /// The error for the client.
    let error: WireError
}

/// The resources that one connection uses, of those that its user may use.
struct ConnectionUsage {
    /// Paths of subscriptions longer than this are charged to the user. The number of subscriptions limits shorter
    /// ones.
    private static let longPathBytes = 1024

    let limits: ConnectionLimits
    /// The resources used by all connections of the user.
    let user: UserUsage
    /// The bytes buffered for this connection that were charged to the user.
    private(set) var chargedBytes = 0
    /// The bytes of the line being served that are not yet charged to a pending request. The requests of a batch share
    /// a line.
    var lineBytes = 0

    init(limits: ConnectionLimits, user: UserUsage) {
        self.limits = limits
        self.user = user
    }

    /// Charges the difference to the last value to the user.
    mutating func update(chargedBytes bytes: Int) {
        if bytes == chargedBytes { return }
        user.charge(bytes - chargedBytes)
        chargedBytes = bytes
    }

    /// Why large buffers are refused to the user at present; nil if they are not.
    func refusalOfLargeWork() -> UsageRefusal? {
        user.exceedsQueuedBytes(limits)
            ? UsageRefusal(limit: .queuedBytes, error: user.queuedBytesExceeded(limits)) : nil
    }

    /// Reserves a place for a pending request.
    /// - Returns: the bytes of its line that are charged until it completes
    mutating func admitRequest() throws(UsageRefusal) -> Int {
        let bytes = lineBytes > UserUsage.largeBytes ? lineBytes : 0
        if bytes > 0, let refusal = refusalOfLargeWork() { throw refusal }
        do throws(WireError) {
            try user.addRequest(limits)
        } catch {
            throw UsageRefusal(limit: .requests, error: error)
        }
        lineBytes = 0
        user.charge(bytes)
        return bytes
    }

    /// Reserves a place for a committed request whose connection has closed.
    func admitOrphan() { user.addOrphanedRequest() }

    /// Releases the places of pending requests.
    func removeRequests(_ count: Int, chargedBytes bytes: Int) {
        for _ in 0..<count { user.removeRequest() }
        if bytes > 0 { user.charge(-bytes) }
    }

    /// Reserves a place for a subscription, and memory for its path.
    /// - Parameter open: the number of subscriptions that the connection has
    /// - Returns: the bytes of its path that are charged while it is open
    func admitSubscription(to path: JSONPath, open: Int) throws(UsageRefusal) -> Int {
        let length = path.segments.reduce(0) { $0 + $1.utf8.count }
        let bytes = length > Self.longPathBytes ? length : 0
        if bytes > 0, let refusal = refusalOfLargeWork() { throw refusal }
        guard open < limits.subscriptionsPerConnection else {
            throw UsageRefusal(
                limit: .subscriptions,
                error: WireError(
                    .limitExceeded,
                    "this connection has \(limits.subscriptionsPerConnection) subscriptions "
                        + "(limits.subscriptionsPerConnection); end one, or open another connection"
                ))
        }
        do throws(WireError) {
            try user.addSubscription(limits)
        } catch {
            throw UsageRefusal(limit: .subscriptions, error: error)
        }
        user.charge(bytes)
        return bytes
    }

    /// Releases the place of a subscription.
    func removeSubscription(chargedBytes bytes: Int) {
        user.removeSubscription()
        user.charge(-bytes)
    }
}
