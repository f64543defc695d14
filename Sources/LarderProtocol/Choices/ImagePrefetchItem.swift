public import LarderJSON

extension ImagePrefetch {
    /// An image to prefetch. On the wire it is a URL, or an object with `url`.
    public struct Item: Sendable, Hashable {
        public var image: ImageReference
        /// The digest that the image must have. If the cached or downloaded image has another digest, it is not used.
        /// Nil to accept any image.
        public var expectedDigest: WireDigest?

        public init(_ image: ImageReference, expectedDigest: WireDigest? = nil) {
            self.image = image
            self.expectedDigest = expectedDigest
        }

        /// Reads a URL, or an object with `url`, `cacheKey` and `expectedDigest`.
        /// - Throws: `invalidParams`. The error does not contain the URL, which may be secret.
        public init(_ value: JSONValue) throws(WireError) {
            if value.kind == .string {
                image = try ImageReference(params: .array([value]))
                return
            }
            guard value.kind == .object else {
                throw WireError(.invalidParams, "an image must be a URL or an object with a \"url\"")
            }
            let reader = try MemberReader(object: value)
            try reader.rejectUnknown(ImageReference.names + ["expectedDigest"])
            image = try ImageReference(from: reader)
            expectedDigest = try reader.digest("expectedDigest")
        }

        /// Reads the parameter `urls`, an array of images.
        /// - Throws: `invalidParams` with the position of the first invalid image
        static func list(from reader: MemberReader) throws(WireError) -> [Item] {
            let maximum = Parameters.maxItems
            guard let urls = reader.value("urls"), !urls.isNull else {
                throw WireError(.invalidParams, "\"urls\" is missing; pass an array of 1 to \(maximum) image URLs")
            }
            guard urls.kind == .array, (1...maximum).contains(urls.count) else {
                throw WireError(.invalidParams, "\"urls\" must be an array of 1 to \(maximum) images")
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

        func write(to writer: inout JSONWriter) {
            if image.cacheKey == nil, expectedDigest == nil { return writer.string(image.url) }
            writer.beginObject()
            image.writeMembers(to: &writer)
            writer.member("expectedDigest", expectedDigest?.description)
            writer.endObject()
        }
    }
}
