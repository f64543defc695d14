import LarderJSON
import LarderClientCore
import LarderProtocol

/// The images that `larder image prefetch` reads from a file: one URL per line, or a JSON array.
///
/// An invalid line or element is rejected individually. The images of all valid ones are still fetched.
struct PrefetchList {
    /// The unit that the number of a rejection counts: lines of text, or elements of a JSON array.
    enum Unit: String {
        case line, element
    }

    /// A line or element that is not a valid image.
    struct Rejection: Equatable {
        /// The number of the line or element, from 1.
        let number: Int
        /// Why the line or element was rejected. This text does not quote the URL, which may contain a signature.
        let reason: String
    }

    let unit: Unit
    /// The images to request, in the order of the file, without duplicates.
    private(set) var items: [ImagePrefetch.Item] = []
    private(set) var rejections: [Rejection] = []
    private var known: Set<ExactText> = []

    private init(_ unit: Unit) { self.unit = unit }

    /// Parses a list.
    ///
    /// In text, empty lines and lines that begin with `#` are skipped. In JSON, each element is a URL or an object with
    /// `url` and optionally `cacheKey` and `expectedDigest`.
    /// - Parameter name: the file name for messages; `-` is standard input.
    /// - Throws: ``Failure`` if the list is empty or is a malformed JSON array.
    static func parse(_ bytes: [UInt8], name: String) throws(Failure) -> PrefetchList {
        let name = Input.displayName(name)
        let first = bytes.first { $0 != 0x20 && !(0x09...0x0D).contains($0) }
        let list = try first == UInt8(ascii: "[") ? array(bytes[...], name) : lines(bytes[...])
        guard !list.items.isEmpty || !list.rejections.isEmpty else {
            throw Failure(.usage, "\(name) contains no image; write one URL per line")
        }
        return list
    }

    private mutating func add(_ item: ImagePrefetch.Item) {
        // A URL in the list has no line feed.
        let text = "\(item.image.url)\n\(item.expectedDigest?.description ?? "")\n\(item.image.cacheKey ?? "")"
        if known.insert(ExactText(text)).inserted { items.append(item) }
    }

    /// Splits a list of images into chunks that each fit into one request.
    /// - Parameters:
    ///   - maxItems: the maximum number of images in a request.
    ///   - maxBytes: the maximum number of bytes of JSON for the images of a request.
    static func chunks(_ items: [ImagePrefetch.Item], maxItems: Int, maxBytes: Int) -> [ArraySlice<
        ImagePrefetch.Item
    >] {
        var chunks: [ArraySlice<ImagePrefetch.Item>] = []
        var start = 0
        var size = 0
        for (index, item) in items.enumerated() {
            let bytes = Self.bytes(item)
            if index > start, index - start == maxItems || size + bytes > maxBytes {
                chunks.append(items[start..<index])
                (start, size) = (index, 0)
            }
            size += bytes
        }
        if start < items.count { chunks.append(items[start...]) }
        return chunks
    }

    /// An upper bound for the bytes that an image takes in a request.
    private static func bytes(_ item: ImagePrefetch.Item) -> Int {
        // The bytes besides the URL and the cache key: names of members, a digest, quotes and commas.
        let frame = 160
        return [item.image.url, item.image.cacheKey ?? ""].reduce(frame) { bytes, text in
            bytes + JSONValue.string(text).compactText.utf8.count
        }
    }

    private static func lines(_ bytes: ArraySlice<UInt8>) -> PrefetchList {
        var list = PrefetchList(.line)
        for (index, bytes) in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            guard let line = String(validating: bytes, as: UTF8.self)?.trimmed else {
                list.rejections.append(Rejection(number: index + 1, reason: "not UTF-8"))
                continue
            }
            if line.isEmpty || line.hasPrefix("#") { continue }
            if let reason = defect(line) {
                list.rejections.append(Rejection(number: index + 1, reason: reason))
            } else {
                list.add(ImagePrefetch.Item(ImageReference(url: line)))
            }
        }
        return list
    }

    private static func array(_ bytes: ArraySlice<UInt8>, _ name: String) throws(Failure) -> PrefetchList {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: Array(bytes))
        } catch {
            throw Failure(.usage, "\(name) begins like a JSON array but is malformed: \(error)")
        }
        var list = PrefetchList(.element)
        for (index, element) in value.elements.enumerated() {
            do throws(WireError) {
                let url = element.string ?? element["url"]?.string
                if let reason = url.flatMap(defect) { throw WireError(.invalidParams, reason) }
                list.add(try ImagePrefetch.Item(element))
            } catch {
                list.rejections.append(Rejection(number: index + 1, reason: error.detail))
            }
        }
        return list
    }

    /// Why a text is not a valid image URL, as far as this can be checked without the agent; nil if it may be valid.
    private static func defect(_ text: String) -> String? {
        let scheme = text.prefix { $0 != ":" }.lowercased()
        guard scheme == "http" || scheme == "https", text.dropFirst(scheme.count).hasPrefix("://") else {
            return "not an http or https URL"
        }
        if text.unicodeScalars.contains(where: { $0.value <= 0x20 || $0.value == 0x7F }) {
            return "the URL contains a space or a control character"
        }
        let authority = text.dropFirst(scheme.count + 3).prefix { !"/?#".contains($0) }
        if authority.contains("@") { return "the URL contains a user name or a password" }
        if authority.isEmpty || authority.hasPrefix(":") { return "the URL has no host" }
        let (length, limit) = (text.utf8.count, ImageReference.longestURL)
        return length > limit ? "the URL has \(length) bytes; at most \(limit) are allowed" : nil
    }
}

extension String {
    /// The text without leading and trailing white space.
    fileprivate var trimmed: String {
        let rest = drop { $0.isWhitespace }
        return String(rest.prefix(rest.count - rest.reversed().prefix { $0.isWhitespace }.count))
    }
}
