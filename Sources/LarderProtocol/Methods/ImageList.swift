public import LarderJSON

/// `image.list`: what is held, page by page.
public enum ImageList: WireMethod {
    public static let name = "image.list"

    /// Which page.
    public struct Parameters: WireParameters, Hashable {
        public static let longestPage = 1000
        /// The page's length unless something else is said.
        public static let defaultPage = 100

        /// The `next` of the page before; nil for the first.
        public var after: String?
        /// How many images at most.
        public var limit: Int
        /// The beginning of the URLs that are listed: an origin, or an origin and the beginning of a path; nil for all.
        public var prefix: String?
        public static var positional: [String] { ["after", "limit", "prefix"] }
        public init(after: String? = nil, limit: Int = Self.defaultPage, prefix: String? = nil) {
            self.after = after
            self.limit = limit
            self.prefix = prefix
        }
        public init(from reader: MemberReader) throws(WireError) {
            after = try reader.string("after")
            limit = try reader.int("limit", in: 1...Self.longestPage) ?? Self.defaultPage
            prefix = try reader.text("prefix", bytes: 1...ImageReference.longestURL)
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("after", after)
            if limit != Self.defaultPage { writer.member("limit", limit) }
            writer.member("prefix", prefix)
            writer.endObject()
        }
    }

    /// One image that is held.
    public struct Entry: Sendable, Hashable {
        /// Under what it is held. Of a URL with a cache key it is the one that it was fetched from.
        public var reference: ImageReference
        public var image: WireImage
        /// Whether it stays until it is unpinned.
        public var isPinned: Bool
        /// When the origin gave or validated it.
        public var storedAt: Timestamp
        /// When it was asked for last; it may be some seconds behind.
        public var lastUsedAt: Timestamp
        /// When it stops being fresh; nil where each use needs a validation.
        public var expiresAt: Timestamp?
        /// `fresh` or `stale`.
        public var freshness: ImageFreshness
        public init(
            reference: ImageReference, image: WireImage, isPinned: Bool, storedAt: Timestamp, lastUsedAt: Timestamp,
            expiresAt: Timestamp?, freshness: ImageFreshness
        ) {
            self.reference = reference
            self.image = image
            self.isPinned = isPinned
            self.storedAt = storedAt
            self.lastUsedAt = lastUsedAt
            self.expiresAt = expiresAt
            self.freshness = freshness
        }
    }

    /// One page.
    public struct Result: WireResult, Hashable {
        /// The images, in an order that stays the same while nothing is added or removed.
        public var images: [Entry]
        /// What to give as `after` for the next page; nil where this is the last.
        public var next: String?
        public init(images: [Entry], next: String?) {
            self.images = images
            self.next = next
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            images = []
            for image in try reader.requiredValue("images").elements {
                images.append(try Entry(from: MemberReader(object: image)))
            }
            next = try reader.string("next")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("images")
            writer.beginArray()
            for image in images { image.write(to: &writer) }
            writer.endArray()
            writer.nullableMember("next", next)
            writer.endObject()
        }
    }
}

extension ImageList.Entry {
    fileprivate init(from reader: MemberReader) throws(WireError) {
        reference = try ImageReference(from: reader)
        image = try WireImage(from: reader)
        isPinned = try reader.requiredBool("pinned")
        storedAt = try reader.requiredTimestamp("storedAt")
        lastUsedAt = try reader.requiredTimestamp("lastUsedAt")
        expiresAt = try reader.timestamp("expiresAt")
        freshness = ImageFreshness(rawValue: try reader.requiredString("freshness"))
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        reference.writeMembers(to: &writer)
        image.writeMembers(to: &writer)
        writer.member("pinned", isPinned)
        writer.member("storedAt", storedAt.description)
        writer.member("lastUsedAt", lastUsedAt.description)
        writer.nullableMember("expiresAt", expiresAt?.description)
        writer.member("freshness", freshness.rawValue)
        writer.endObject()
    }
}
