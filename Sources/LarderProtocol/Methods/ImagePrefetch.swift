public import LarderJSON

/// `image.prefetch`: brings many images into the cache and reports how each of them fared.
public enum ImagePrefetch: WireMethod {
    /// `image.prefetch`
    public static let name = "image.prefetch"

    /// One image of the list.
    public struct Item: Sendable, Hashable {
        public var image: ImageReference
        /// What its bytes must be; anything else is refused.
        public var expectedDigest: WireDigest?
        public init(_ image: ImageReference, expectedDigest: WireDigest? = nil) {
            self.image = image
            self.expectedDigest = expectedDigest
        }
        /// Reads it: a URL, or an object with `url`, `cacheKey` and `expectedDigest`.
        /// - Throws: `invalidParams`, without the URL.
        public init(_ value: JSONValue) throws(WireError) {
            if value.kind == .string {
                image = try ImageReference(params: .array([value]))
                return
            }
            guard value.kind == .object else {
                throw WireError(.invalidParams, "an image must be a URL or an object with a \"url\"")
            }
            let reader = try MemberReader(object: value)
            image = try ImageReference(from: reader)
            expectedDigest = try reader.digest("expectedDigest")
        }
    }

    /// Which images, and how.
    public struct Parameters: WireParameters, Hashable {
        /// The most images of one request.
        public static let mostItems = 10_000

        public var items: [Item]
        /// How many to fetch at once; nil for 16. The agent's settings limit downloads as well.
        public var concurrency: Int?
        /// Whether to send `image.progress`.
        public var reportsProgress: Bool
        /// `urls`, `concurrency`, `progress`
        public static var positional: [String] { ["urls", "concurrency", "progress"] }
        public init(_ items: [Item], concurrency: Int? = nil, reportsProgress: Bool = true) {
            self.items = items
            self.concurrency = concurrency
            self.reportsProgress = reportsProgress
        }
        public init(from reader: MemberReader) throws(WireError) {
            guard let urls = reader.value("urls"), !urls.isNull else {
                throw WireError(
                    .invalidParams, "\"urls\" is missing; pass an array of 1 to \(Self.mostItems) image URLs")
            }
            items = try Self.items(urls)
            concurrency = try reader.int("concurrency", in: 1...64)
            reportsProgress = try reader.bool("progress") ?? true
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("urls")
            writer.beginArray()
            for item in items { item.write(to: &writer) }
            writer.endArray()
            writer.member("concurrency", concurrency)
            if !reportsProgress { writer.member("progress", false) }
            writer.endObject()
        }

        private static func items(_ urls: JSONValue) throws(WireError) -> [Item] {
            guard urls.kind == .array, (1...mostItems).contains(urls.count) else {
                throw WireError(.invalidParams, "\"urls\" must be an array of 1 to \(mostItems) images")
            }
            var items: [Item] = []
            items.reserveCapacity(urls.count)
            for (index, url) in urls.elements.enumerated() {
                do throws(WireError) {
                    items.append(try Item(url))
                } catch {
                    throw WireError(.invalidParams, "element \(index + 1) of \"urls\": \(error.detail)")
                }
            }
            return items
        }
    }

    /// An image that could not be had.
    public struct Failure: Sendable, Hashable {
        /// Its URL as it was requested.
        public var url: String
        /// What happened: the error that `image.get` would have answered with.
        public var error: WireError
        public init(url: String, error: WireError) {
            self.url = url
            self.error = error
        }
    }

    /// How the images fared: `fetched` + `held` + `failed` = `total`.
    public struct Result: WireResult, Hashable {
        /// The most failures that are listed.
        public static let mostFailures = 1000

        /// Images asked for.
        public var total: Int
        /// Images that were fetched or validated.
        public var fetched: Int
        /// Images that were held and are good.
        public var held: Int
        /// Images that could not be had.
        public var failed: Int
        /// Bytes fetched.
        public var bytes: Int
        /// The first failures, in the order of the list.
        public var failures: [Failure]
        /// Failures that are not among them.
        public var failuresOmitted: Int
        public init(
            total: Int, fetched: Int, held: Int, failed: Int, bytes: Int, failures: [Failure], failuresOmitted: Int = 0
        ) {
            self.total = total
            self.fetched = fetched
            self.held = held
            self.failed = failed
            self.bytes = bytes
            self.failures = failures
            self.failuresOmitted = failuresOmitted
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            total = try reader.requiredInt("total")
            fetched = try reader.requiredInt("fetched")
            held = try reader.requiredInt("held")
            failed = try reader.requiredInt("failed")
            bytes = try reader.requiredInt("bytes")
            failures = []
            for failure in try reader.requiredValue("failures").elements {
                failures.append(try Failure(from: MemberReader(object: failure)))
            }
            failuresOmitted = try reader.int("failuresOmitted") ?? 0
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("total", total)
            writer.member("fetched", fetched)
            writer.member("held", held)
            writer.member("failed", failed)
            writer.member("bytes", bytes)
            writer.name("failures")
            writer.beginArray()
            for failure in failures { failure.write(to: &writer) }
            writer.endArray()
            if failuresOmitted > 0 { writer.member("failuresOmitted", failuresOmitted) }
            writer.endObject()
        }
    }
}

extension ImagePrefetch.Item {
    fileprivate func write(to writer: inout JSONWriter) {
        if image.cacheKey == nil, expectedDigest == nil { return writer.string(image.url) }
        writer.beginObject()
        image.writeMembers(to: &writer)
        writer.member("expectedDigest", expectedDigest?.description)
        writer.endObject()
    }
}

extension ImagePrefetch.Failure {
    fileprivate init(from reader: MemberReader) throws(WireError) {
        url = try reader.requiredString("url")
        error = WireError(
            WireError.Code(name: try reader.requiredString("name")), try reader.requiredString("detail"),
            reason: try reader.string("reason"))
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("url", url)
        writer.member("name", error.code.name)
        writer.member("detail", error.detail)
        writer.member("reason", error.reason)
        writer.endObject()
    }
}
