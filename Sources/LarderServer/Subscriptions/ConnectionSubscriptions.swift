/// The open subscriptions of one connection.
struct ConnectionSubscriptions {
    private var subscriptions: [Int: Subscription] = [:]
    private var lastID = 0
    /// Subscriptions that missed the newest snapshot because output was pending.
    private var lagging: [Subscription] = []

    var count: Int { subscriptions.count }
    var isEmpty: Bool { subscriptions.isEmpty }

    /// The subscriptions in the order in which they were opened.
    var sorted: [Subscription] { isEmpty ? [] : subscriptions.values.sorted { $0.id < $1.id } }

    subscript(id: Int) -> Subscription? { subscriptions[id] }

    /// Returns an id that the connection has not used before.
    mutating func nextID() -> Int {
        lastID += 1
        return lastID
    }

    mutating func add(_ subscription: Subscription) { subscriptions[subscription.id] = subscription }

    /// - Returns: false if the subscription was removed earlier
    mutating func remove(_ subscription: Subscription) -> Bool {
        guard subscriptions.removeValue(forKey: subscription.id) != nil else { return false }
        lagging.removeAll { $0 === subscription }
        return true
    }

    mutating func addLagging(_ subscription: Subscription) { lagging.append(subscription) }

    /// Removes and returns the lagging subscriptions.
    mutating func takeLagging() -> [Subscription] {
        defer { lagging = [] }
        return lagging
    }
}
