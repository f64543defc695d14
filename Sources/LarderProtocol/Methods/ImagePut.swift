public import LarderJSON

/// `image.put`: stores the bytes of an image under a URL or a key of the client.
public enum ImagePut: WireMethod {
    public static let name = "image.put"

    /// Under what, and which bytes.
    public struct Parameters: WireParameters, Hashable {
        /// How the bytes of the whole file come.
        public enum Content: Sendable, Hashable {
            /// Within the request's line.
            case inline([UInt8])
            /// From an open file, whose descriptor comes with the first byte of the request's line.
            case descriptor
        }

        /// How long an image is fresh if the client does not say: a year, in seconds.
        public static let defaultLifetime = 31_536_000

        public var image: ImageReference
        public var content: Content
        /// What the bytes must be; anything else is refused.
        public var expectedDigest: WireDigest?
        /// For how many seconds it is fresh. The origin of its URL is asked after that.
        public var lifetimeSeconds: Int
        public static var positional: [String] {
            ["url", "data", "cacheKey", "expectedDigest", "lifetimeSeconds", "descriptor"]
        }

        public init(
            _ image: ImageReference, _ content: Content, expectedDigest: WireDigest? = nil,
            lifetimeSeconds: Int = Self.defaultLifetime
        ) {
            self.image = image
            self.content = content
            self.expectedDigest = expectedDigest
            self.lifetimeSeconds = lifetimeSeconds
        }

        public init(from reader: MemberReader) throws(WireError) {
            image = try ImageReference(from: reader)
            content = try Self.content(from: reader)
            expectedDigest = try reader.digest("expectedDigest")
            lifetimeSeconds =
                try reader.int("lifetimeSeconds", in: 0...ImageGet.Parameters.highestAge) ?? Self.defaultLifetime
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            image.writeMembers(to: &writer)
            switch content {
            case .inline(let bytes): writer.member("data", InlineBytes.text(of: bytes))
            case .descriptor: writer.member("descriptor", true)
            }
            writer.member("expectedDigest", expectedDigest?.description)
            if lifetimeSeconds != Self.defaultLifetime { writer.member("lifetimeSeconds", lifetimeSeconds) }
            writer.endObject()
        }

        private static func content(from reader: MemberReader) throws(WireError) -> Content {
            let data = try reader.string("data")
            guard try reader.bool("descriptor") ?? false else {
                guard let data else {
                    throw WireError(
                        .invalidParams, "\"data\" is missing; send it, or a descriptor and \"descriptor\": true")
                }
                if let bytes = InlineBytes.bytes(of: data) { return .inline(bytes) }
                throw WireError(.invalidParams, "\"data\" must be the bytes of the image in base64 with padding")
            }
            guard data == nil else {
                throw WireError(.invalidParams, "\"data\" and \"descriptor\" exclude each other; send one of them")
            }
            return .descriptor
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
