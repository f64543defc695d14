import JSON
import LarderClient

/// The images that `larder image prefetch` is given: one URL a line, or a JSON array.
enum PrefetchList {
    /// Reads a list.
    ///
    /// In text, empty lines and those that begin with `#` are passed over. In JSON, each element is a URL or an object with
    /// `url` and, if wanted, `cacheKey` and `expectedDigest`. An image that is listed twice is asked for once.
    /// - Parameter name: what the list is called in errors.
    /// - Throws: ``Failure`` that names the line or element which is no image. It does not repeat it: a URL may hold a
    ///   signature.
    static func parse(_ bytes: [UInt8], name: String) throws(Failure) -> [ImagePrefetch.Item] {
        let name = name == "-" ? "standard input" : name.printable
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(name) is not UTF-8; is it a list of URLs?")
        }
        let items = try text.first { !$0.isWhitespace } == "[" ? array(text, name) : lines(text, name)
        if items.isEmpty { throw Failure(.usage, "\(name) names no image; write one URL a line") }
        var known: Set<ImagePrefetch.Item> = []
        return items.filter { known.insert($0).inserted }
    }

    /// Cuts a list into portions that the agent takes in one request each.
    /// - Parameters:
    ///   - mostItems: the most images in one request.
    ///   - mostBytes: the most bytes of JSON that the images of one request may have.
    static func portions(_ items: [ImagePrefetch.Item], mostItems: Int, mostBytes: Int) -> [ArraySlice<
        ImagePrefetch.Item
    >] {
        var portions: [ArraySlice<ImagePrefetch.Item>] = []
        var start = 0
        var size = 0
        for (index, item) in items.enumerated() {
            let bytes = Self.bytes(item)
            if index > start, index - start == mostItems || size + bytes > mostBytes {
                portions.append(items[start..<index])
                (start, size) = (index, 0)
            }
            size += bytes
        }
        if start < items.count { portions.append(items[start...]) }
        return portions
    }

    /// The most bytes that an image takes in a request.
    private static func bytes(_ item: ImagePrefetch.Item) -> Int {
        // The names of the members, a digest, quotes and commas.
        let frame = 160
        return [item.image.url, item.image.cacheKey ?? ""].reduce(frame) { bytes, text in
            bytes + JSONValue.string(text).compactText.utf8.count
        }
    }

    private static func lines(_ text: String, _ name: String) throws(Failure) -> [ImagePrefetch.Item] {
        var items: [ImagePrefetch.Item] = []
        // A byte order mark is no part of the first URL.
        let text = text.unicodeScalars.first == "\u{FEFF}" ? text.unicodeScalars.dropFirst() : text.unicodeScalars[...]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let url = String(String.UnicodeScalarView(line)).trimmed
            if url.isEmpty || url.hasPrefix("#") { continue }
            guard isURL(url) else {
                throw Failure(.usage, "line \(index + 1) of \(name) is no URL of an image; write https://…, one a line")
            }
            items.append(ImagePrefetch.Item(ImageReference(url: url)))
        }
        return items
    }

    private static func array(_ text: String, _ name: String) throws(Failure) -> [ImagePrefetch.Item] {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: text)
        } catch {
            throw Failure(.usage, "\(name) begins like a JSON array but is none: \(error)")
        }
        var items: [ImagePrefetch.Item] = []
        for (index, element) in value.elements.enumerated() {
            do throws(WireError) {
                items.append(try ImagePrefetch.Item(element))
            } catch {
                throw Failure(.usage, "element \(index + 1) of \(name) is no image: \(error.detail)")
            }
            guard isURL(items[index].image.url) else {
                throw Failure(.usage, "element \(index + 1) of \(name) is no URL of an image; write \"https://…\"")
            }
        }
        return items
    }

    /// Whether the agent would take it for the URL of an image, as far as that can be seen at once.
    private static func isURL(_ text: String) -> Bool {
        let scheme = text.prefix { $0 != ":" }.lowercased()
        return (scheme == "http" || scheme == "https") && text.dropFirst(scheme.count).hasPrefix("://")
            && !text.unicodeScalars.contains { $0.value <= 0x20 }
    }
}

extension String {
    /// Without white space at its ends.
    fileprivate var trimmed: String {
        let rest = drop { $0.isWhitespace }
        return String(rest.prefix(rest.count - rest.reversed().prefix { $0.isWhitespace }.count))
    }
}
