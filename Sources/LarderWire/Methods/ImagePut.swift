public import JSON

/// `image.put`: stores the bytes of an image under a URL or a key of the client.
public enum ImagePut: WireMethod {
    public static let name = "image.put"

    /// Under what, and which bytes.
    public struct Parameters: WireParameters, Hashable {
        /// How long an image is fresh if the client does not say: a year, in seconds.
        public static let defaultLifetime = 31_536_000

        public var image: ImageReference
        /// The whole file.
        public var data: [UInt8]
        /// What the bytes must be; anything else is refused.
        public var expectedDigest: WireDigest?
        /// For how many seconds it is fresh. The origin of its URL is asked after that.
        public var lifetimeSeconds: Int
        public static var positional: [String] { ["url", "data", "cacheKey", "expectedDigest", "lifetimeSeconds"] }

        public init(
            _ image: ImageReference, data: [UInt8], expectedDigest: WireDigest? = nil,
            lifetimeSeconds: Int = Self.defaultLifetime
        ) {
            self.image = image
            self.data = data
            self.expectedDigest = expectedDigest
            self.lifetimeSeconds = lifetimeSeconds
        }

        public init(from reader: MemberReader) throws(WireError) {
            image = try ImageReference(from: reader)
            guard let data = InlineBytes.bytes(of: try reader.requiredString("data")) else {
                throw WireError(.invalidParams, "\"data\" must be the bytes of the image in base64 with padding")
            }
            self.data = data
            expectedDigest = try reader.digest("expectedDigest")
            lifetimeSeconds =
                try reader.int("lifetimeSeconds", in: 0...ImageGet.Parameters.highestAge) ?? Self.defaultLifetime
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            image.writeMembers(to: &writer)
            writer.member("data", InlineBytes.text(of: data))
            writer.member("expectedDigest", expectedDigest?.description)
            if lifetimeSeconds != Self.defaultLifetime { writer.member("lifetimeSeconds", lifetimeSeconds) }
            writer.endObject()
        }
    }

    /// What was stored.
    public struct Result: WireResult, Hashable {
        public var image: WireImage
        public init(image: WireImage) { self.image = image }
        public init(from value: JSONValue) throws(WireError) {
            image = try WireImage(from: MemberReader(object: value))
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            image.writeMembers(to: &writer)
            writer.endObject()
        }
    }
}
