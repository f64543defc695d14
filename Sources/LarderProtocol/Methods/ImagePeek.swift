public import LarderJSON

/// `image.peek`: what is held of an image, and what `image.get` would do about it. It never asks the network.
public enum ImagePeek: WireMethod {
    public static let name = "image.peek"

    /// Which image, and how it would be asked for.
    public struct Parameters: WireParameters, Hashable {
        public var image: ImageReference
        /// Cache or network.
        public var policy: ImagePolicy
        /// The oldest image that would do, in seconds; nil for what the policy says.
        public var maximumAgeSeconds: Int?
        /// Whether to say which rules led to the decision.
        public var explains: Bool
        public static var positional: [String] { ["url", "policy", "maximumAgeSeconds", "cacheKey", "explain"] }
        public init(
            _ image: ImageReference, policy: ImagePolicy = .default, maximumAgeSeconds: Int? = nil,
            explains: Bool = false
        ) {
            self.image = image
            self.policy = policy
            self.maximumAgeSeconds = maximumAgeSeconds
            self.explains = explains
        }
        public init(from reader: MemberReader) throws(WireError) {
            image = try ImageReference(from: reader)
            policy = try reader.word("policy", ImagePolicy.self) ?? .default
            maximumAgeSeconds = try reader.int("maximumAgeSeconds", in: 0...ImageGet.Parameters.highestAge)
            explains = try reader.bool("explain") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            image.writeMembers(to: &writer)
            if policy != .default { writer.member("policy", policy.rawValue) }
            writer.member("maximumAgeSeconds", maximumAgeSeconds)
            if explains { writer.member("explain", true) }
            writer.endObject()
        }
    }

    /// What `image.get` would do. A value that this version does not know is kept as it came.
    public struct Decision: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Answer with what is held: it is fresh.
        public static let fresh = Self(rawValue: "fresh")
        /// Answer with what is held although it is stale.
        public static let stale = Self(rawValue: "stale")
        /// Ask the origin whether what is held is still current.
        public static let revalidate = Self(rawValue: "revalidate")
        public static let fetch = Self(rawValue: "fetch")
        /// Answer that it is not held.
        public static let notHeld = Self(rawValue: "notHeld")

        public var description: String { rawValue }
    }

    public struct Held: Sendable, Hashable {
        /// The absolute path of the file, on which there is no lease: it may go at any time.
        public var path: String
        public var image: WireImage
        /// `fresh` or `stale`, whatever the policy.
        public var freshness: ImageFreshness
        /// Its age in seconds since the origin made or validated it (RFC 9111, section 4.2.3).
        public var ageSeconds: Int
        /// Whether it stays until it is unpinned.
        public var isPinned: Bool
        /// When the origin gave or validated it.
        public var storedAt: Timestamp
        /// When it was asked for last; it may be some seconds behind.
        public var lastUsedAt: Timestamp
        /// When it stops being fresh; nil where each use needs a validation.
        public var expiresAt: Timestamp?
        public init(
            path: String, image: WireImage, freshness: ImageFreshness, ageSeconds: Int, isPinned: Bool,
            storedAt: Timestamp, lastUsedAt: Timestamp, expiresAt: Timestamp?
        ) {
            self.path = path
            self.image = image
            self.freshness = freshness
            self.ageSeconds = ageSeconds
            self.isPinned = isPinned
            self.storedAt = storedAt
            self.lastUsedAt = lastUsedAt
            self.expiresAt = expiresAt
        }
    }

    /// A rule that was looked at on the way to the decision.
    public struct Rule: Sendable, Hashable {
        /// Which rule: a short, stable word.
        public var name: String
        /// What it came to, with its numbers, for people.
        public var text: String
        public init(name: String, text: String) {
            self.name = name
            self.text = text
        }
    }

    /// What is held and what would be done about it.
    public struct Result: WireResult, Hashable {
        /// What is held; nil for nothing.
        public var held: Held?
        /// What `image.get` would do.
        public var decision: Decision
        /// Whether it would ask the origin after it has answered.
        public var revalidates: Bool
        /// The rules in the order that they were looked at; nil where nobody asked for them.
        public var rules: [Rule]?
        public init(held: Held?, decision: Decision, revalidates: Bool, rules: [Rule]? = nil) {
            self.held = held
            self.decision = decision
            self.revalidates = revalidates
            self.rules = rules
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            held = try reader.requiredBool("held") ? Held(from: reader) : nil
            decision = Decision(rawValue: try reader.requiredString("decision"))
            revalidates = try reader.requiredBool("revalidates")
            guard let given = reader.value("rules"), !given.isNull else { return }
            var rules: [Rule] = []
            for rule in given.elements {
                let reader = try MemberReader(object: rule)
                rules.append(Rule(name: try reader.requiredString("name"), text: try reader.requiredString("text")))
            }
            self.rules = rules
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("held", held != nil)
            held?.writeMembers(to: &writer)
            writer.member("decision", decision.rawValue)
            writer.member("revalidates", revalidates)
            if let rules {
                writer.name("rules")
                writer.beginArray()
                for rule in rules {
                    writer.beginObject()
                    writer.member("name", rule.name)
                    writer.member("text", rule.text)
                    writer.endObject()
                }
                writer.endArray()
            }
            writer.endObject()
        }
    }
}

extension ImagePeek.Held {
    fileprivate init(from reader: MemberReader) throws(WireError) {
        path = try reader.requiredString("path")
        image = try WireImage(from: reader)
        freshness = ImageFreshness(rawValue: try reader.requiredString("freshness"))
        ageSeconds = try reader.requiredInt("ageSeconds")
        isPinned = try reader.requiredBool("pinned")
        storedAt = try reader.requiredTimestamp("storedAt")
        lastUsedAt = try reader.requiredTimestamp("lastUsedAt")
        expiresAt = try reader.timestamp("expiresAt")
    }

    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("path", path)
        image.writeMembers(to: &writer)
        writer.member("freshness", freshness.rawValue)
        writer.member("ageSeconds", ageSeconds)
        writer.member("pinned", isPinned)
        writer.member("storedAt", storedAt.description)
        writer.member("lastUsedAt", lastUsedAt.description)
        writer.nullableMember("expiresAt", expiresAt?.description)
    }
}
