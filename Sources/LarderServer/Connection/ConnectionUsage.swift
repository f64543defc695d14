import LarderJSON
import LarderProtocol

/// Why a limit per user or connection refuses something.
struct UsageRefusal: Error {
    enum Limit { case queuedBytes, requests, subscriptions }

    let limit: Limit
    /// The error that the client gets.
    let error: WireError
}

/// The share of one connection in what its user may use.
struct ConnectionUsage {
    /// The path of a subscription counts from here on. Shorter ones are bounded by the number of subscriptions.
    private static let longPathBytes = 1024

    let limits: ConnectionLimits
    /// The resources in use by all connections of the user.
    let user: UserUsage
    /// Bytes buffered for the client that were added to the user's.
    private(set) var heldBytes = 0
    /// Bytes of the line being served that no pending request counts yet. The requests of a batch share its line.
    var lineBytes = 0

    init(limits: ConnectionLimits, user: UserUsage) {
        self.limits = limits
        self.user = user
    }

    /// Adds the difference to what was buffered before to the user's bytes.
    mutating func update(heldBytes bytes: Int) {
        if bytes == heldBytes { return }
        user.hold(bytes - heldBytes)
        heldBytes = bytes
    }

    /// Why nothing more that is large is buffered for the user; nil if it is.
    func refusalOfLargeWork() -> UsageRefusal? {
        user.hasTooMuch(limits) ? UsageRefusal(limit: .queuedBytes, error: user.tooMuch(limits)) : nil
    }

    /// Takes a place for a pending request.
    /// - Returns: the bytes of its line that count until it is completed.
    mutating func admitRequest() throws(UsageRefusal) -> Int {
        let bytes = lineBytes > UserUsage.largeBytes ? lineBytes : 0
        if bytes > 0, let refusal = refusalOfLargeWork() { throw refusal }
        do throws(WireError) {
            try user.addRequest(limits)
        } catch {
            throw UsageRefusal(limit: .requests, error: error)
        }
        lineBytes = 0
        user.hold(bytes)
        return bytes
    }

    /// Takes a place for a committed request of a connection that is closed already.
    func admitOrphan() { user.addOrphanedRequest() }

    /// Returns the places of pending requests.
    func removeRequests(_ count: Int, heldBytes bytes: Int) {
        for _ in 0..<count { user.removeRequest() }
        if bytes > 0 { user.hold(-bytes) }
    }

    /// Takes a place for a subscription, and room for its path.
    /// - Parameter open: the subscriptions that the connection has.
    /// - Returns: the bytes of its path that count as long as it is open.
    func admitSubscription(to path: JSONPath, open: Int) throws(UsageRefusal) -> Int {
        let length = path.segments.reduce(0) { $0 + $1.utf8.count }
        let bytes = length > Self.longPathBytes ? length : 0
        if bytes > 0, let refusal = refusalOfLargeWork() { throw refusal }
        guard open < limits.subscriptionsPerConnection else {
            throw UsageRefusal(
                limit: .subscriptions,
                error: WireError(
                    .limitExceeded,
                    "a connection may have \(limits.subscriptionsPerConnection) subscriptions; end one or connect again"
                ))
        }
        do throws(WireError) {
            try user.addSubscription(limits)
        } catch {
            throw UsageRefusal(limit: .subscriptions, error: error)
        }
        user.hold(bytes)
        return bytes
    }

    /// Returns the place of a subscription.
    func removeSubscription(heldBytes bytes: Int) {
        user.removeSubscription()
        user.hold(-bytes)
    }
}
