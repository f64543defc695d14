public import LarderJSON

/// `image.get`: an image as a file that stays while the lease lasts.
public enum ImageGet: WireMethod {
    public static let name = "image.get"

    /// How the bytes are handed over.
    public enum Delivery: String, Sendable, Hashable, CaseIterable {
        /// As the path of a file.
        case path
        /// As a path, and as an open descriptor that comes with the first byte of the reply.
        case descriptor
    }

    /// Who comes first where requests wait for the network.
    public enum Priority: String, Sendable, Hashable, CaseIterable {
        /// After the others.
        case low
        /// Unless something else is said.
        case normal
        /// Before the others: somebody looks at an empty frame.
        case high
    }

    /// Which image, and how it may be answered.
    public struct Parameters: WireParameters, Hashable {
        /// The longest lease that can be asked for, in seconds.
        public static let longestLease = 86_400
        /// The highest age that can be named, in seconds: ten years; more is a mistake in the unit.
        public static let highestAge = 10 * 366 * 86_400
        /// The longest deadline, in milliseconds: a day.
        public static let longestDeadline = 86_400_000

        public var image: ImageReference
        /// Cache or network.
        public var policy: ImagePolicy
        /// The oldest image that will do, in seconds; nil for what the policy says.
        public var maximumAgeSeconds: Int?
        /// What the bytes must be; anything else is refused.
        public var expectedDigest: WireDigest?
        /// How the bytes are handed over.
        public var delivery: Delivery
        /// For how many seconds the file stays; 0 until the connection ends, nil for what the settings say.
        public var leaseSeconds: Int?
        /// Who comes first where requests wait for the network.
        public var priority: Priority
        /// After how many milliseconds to give up with the error `timeout`; nil for never.
        public var deadlineMilliseconds: Int?
        /// `url`, `policy`, `maximumAgeSeconds`, `expectedDigest`, `cacheKey`, `as`, `leaseSeconds`, `priority`,
        /// `deadlineMilliseconds`
        public static var positional: [String] {
            [
                "url", "policy", "maximumAgeSeconds", "expectedDigest", "cacheKey", "as", "leaseSeconds", "priority",
                "deadlineMilliseconds",
            ]
        }

        public init(
            _ image: ImageReference, policy: ImagePolicy = .default, maximumAgeSeconds: Int? = nil,
            expectedDigest: WireDigest? = nil, delivery: Delivery = .path, leaseSeconds: Int? = nil,
            priority: Priority = .normal, deadlineMilliseconds: Int? = nil
        ) {
            self.image = image
            self.policy = policy
            self.maximumAgeSeconds = maximumAgeSeconds
            self.expectedDigest = expectedDigest
            self.delivery = delivery
            self.leaseSeconds = leaseSeconds
            self.priority = priority
            self.deadlineMilliseconds = deadlineMilliseconds
        }

        public init(from reader: MemberReader) throws(WireError) {
            image = try ImageReference(from: reader)
            policy = try reader.word("policy", ImagePolicy.self) ?? .default
            maximumAgeSeconds = try reader.int("maximumAgeSeconds", in: 0...Self.highestAge)
            expectedDigest = try reader.digest("expectedDigest")
            delivery = try reader.word("as", Delivery.self) ?? .path
            leaseSeconds = try reader.int("leaseSeconds", in: 0...Self.longestLease)
            priority = try reader.word("priority", Priority.self) ?? .normal
            deadlineMilliseconds = try reader.int("deadlineMilliseconds", in: 1...Self.longestDeadline)
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            image.writeMembers(to: &writer)
            if policy != .default { writer.member("policy", policy.rawValue) }
            writer.member("maximumAgeSeconds", maximumAgeSeconds)
            writer.member("expectedDigest", expectedDigest?.description)
            if delivery != .path { writer.member("as", delivery.rawValue) }
            writer.member("leaseSeconds", leaseSeconds)
            if priority != .normal { writer.member("priority", priority.rawValue) }
            writer.member("deadlineMilliseconds", deadlineMilliseconds)
            writer.endObject()
        }
    }

    /// Where an image came from. A value that this version does not know is kept as it came.
    public struct Source: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// It was held.
        public static let hit = Self(rawValue: "hit")
        /// It was fetched for this request.
        public static let miss = Self(rawValue: "miss")
        /// It was being fetched for another one already.
        public static let joined = Self(rawValue: "joined")

        public var description: String { rawValue }
    }

    /// An image and the lease on its file.
    public struct Result: WireResult, Hashable {
        /// The absolute path of the file. It is read, never written; it stays at least as long as the lease.
        public var path: String
        public var image: WireImage
        /// How good it is.
        public var freshness: ImageFreshness
        /// Where it came from.
        public var source: Source
        /// Its age in seconds since the origin made or validated it (RFC 9111, section 4.2.3).
        public var ageSeconds: Int
        /// The lease's number on this connection.
        public var lease: Int
        /// Whether an open descriptor of the file comes with the reply's first byte.
        public var hasDescriptor: Bool

        public init(
            path: String, image: WireImage, freshness: ImageFreshness, source: Source, ageSeconds: Int, lease: Int,
            hasDescriptor: Bool = false
        ) {
            self.path = path
            self.image = image
            self.freshness = freshness
            self.source = source
            self.ageSeconds = ageSeconds
            self.lease = lease
            self.hasDescriptor = hasDescriptor
        }

        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            path = try reader.requiredString("path")
            image = try WireImage(from: reader)
            freshness = ImageFreshness(rawValue: try reader.requiredString("freshness"))
            source = Source(rawValue: try reader.requiredString("source"))
            ageSeconds = try reader.requiredInt("ageSeconds")
            lease = try reader.requiredInt("lease")
            hasDescriptor = try reader.bool("descriptor") ?? false
        }

        public func write(to writer: inout JSONWriter) {
            Self.writeConstant(path: path, image: image, to: &writer)
            Self.writeRest(
                freshness: freshness.rawValue, source: source.rawValue, ageSeconds: ageSeconds, lease: lease,
                hasDescriptor: hasDescriptor, to: &writer)
        }

        /// Begins a result with what is the same each time that the image is answered, so that it can be kept. What
        /// ``writeRest(freshness:source:ageSeconds:lease:hasDescriptor:to:)`` writes comes next.
        public static func writeConstant(path: String, image: WireImage, to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("path", path)
            image.writeMembers(to: &writer)
        }

        /// Writes the rest of a result that was begun.
        public static func writeRest(
            freshness: String, source: String, ageSeconds: Int, lease: Int, hasDescriptor: Bool,
            to writer: inout JSONWriter
        ) {
            writer.member("freshness", freshness)
            writer.member("source", source)
            writer.member("ageSeconds", ageSeconds)
            writer.member("lease", lease)
            if hasDescriptor { writer.member("descriptor", true) }
            writer.endObject()
        }
    }
}

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

/// How good an image is that answers a request. A value that this version does not know is kept as it came.
public struct ImageFreshness: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public let rawValue: String
    /// Makes one from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Within its lifetime.
    public static let fresh = Self(rawValue: "fresh")
    /// Past its lifetime, and allowed all the same.
    public static let stale = Self(rawValue: "stale")
    /// The origin was asked for this request and said that it is current.
    public static let revalidated = Self(rawValue: "revalidated")

    public var description: String { rawValue }
}
