/// Which of the cache and the network a request for an image prefers.
public enum ImagePolicy: String, Sendable, Hashable, CaseIterable {
    /// HTTP's rules for a private cache (RFC 9111, RFC 5861).
    case `default`
    /// Whatever is held, however old; the network only for what is not.
    case cacheFirst
    /// The network, and what is held when it is out of order.
    case networkFirst
    /// What is held, or the error `notFound`.
    case cacheOnly
    /// The network, even for what is held and fresh.
    case networkOnly
    /// Whatever is held at once, while the network is asked behind it.
    case staleWhileRevalidate
}
