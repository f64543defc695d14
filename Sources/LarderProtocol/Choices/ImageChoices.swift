package import LarderJSON

extension ImagePrefetch {
    /// An image to prefetch. On the wire it is a URL, or an object with `url`.
    package struct Item: Sendable, Hashable {
        package var image: ImageReference
        /// The digest that the image must have. If the cached or downloaded image has another digest, it is not used.
        /// Nil to accept any image.
        package var expectedDigest: WireDigest?

        package init(_ image: ImageReference, expectedDigest: WireDigest? = nil) {
            self.image = image
            self.expectedDigest = expectedDigest
        }

        /// Reads a URL, or an object with `url`, `cacheKey` and `expectedDigest`.
        /// - Throws: `invalidParams`. The error does not contain the URL, which may be secret.
        package init(_ value: JSONValue) throws(WireError) {
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

extension ImagePut.Parameters {
    /// How a client sends the bytes of the image to store.
    package enum Content: Sendable, Hashable {
        /// As base64 in the request itself.
        case inline([UInt8])
        /// As an open file, whose descriptor is sent with the first byte of the request's line.
        case descriptor

        init(from reader: MemberReader) throws(WireError) {
            let data = try reader.string("data")
            guard try reader.bool("descriptor") ?? false else {
                guard let data else {
                    throw WireError(
                        .invalidParams, "\"data\" is missing; send it, or a descriptor and \"descriptor\": true")
                }
                guard let bytes = InlineBytes.bytes(of: data) else {
                    throw WireError(.invalidParams, "\"data\" must be the bytes of the image in base64 with padding")
                }
                self = .inline(bytes)
                return
            }
            guard data == nil else {
                throw WireError(.invalidParams, "\"data\" and \"descriptor\" exclude each other; send one of them")
            }
            self = .descriptor
        }

        /// Writes `data` or `descriptor` into the object that was begun with `writer`.
        func writeMembers(to writer: inout JSONWriter) {
            switch self {
            case .inline(let bytes): writer.member("data", InlineBytes.text(of: bytes))
            case .descriptor: writer.member("descriptor", true)
            }
        }
    }
}

extension ImageRemove {
    /// The images to remove.
    package enum Selection: Sendable, Hashable {
        case image(ImageReference)
        /// All images whose URL begins with this text, which is an origin, or an origin and the beginning of a path and
        /// query.
        case prefix(String)

        /// The URL of the image, or the prefix.
        var url: String {
            switch self {
            case .image(let image): image.url
            case .prefix(let prefix): prefix
            }
        }

        init(from reader: MemberReader) throws(WireError) {
            if let prefix = try reader.text("prefix", bytes: 1...ImageReference.longestURL) {
                guard try reader.string("url") == nil, try reader.string("cacheKey") == nil else {
                    throw WireError(.invalidParams, "\"prefix\" excludes \"url\" and \"cacheKey\"; send one of them")
                }
                self = .prefix(prefix)
            } else {
                self = .image(try ImageReference(from: reader))
            }
        }

        /// Writes the parameters of the selection into the object that was begun with `writer`.
        func writeMembers(to writer: inout JSONWriter) {
            switch self {
            case .image(let image): image.writeMembers(to: &writer)
            case .prefix(let prefix): writer.member("prefix", prefix)
            }
        }
    }
}
