import JSON
import LarderClient

/// The images that `larder image prefetch` is given: one URL a line, or a JSON array.
struct PrefetchList {
    /// What the images of a list are counted by.
    enum Place: String {
        case line, element
    }

    /// What ``failures`` are counted by.
    let place: Place
    /// The images to ask for, each once, in the order of the list.
    private(set) var items: [ImagePrefetch.Item] = []
    /// The images that cannot be asked for, because no request may have URLs so long, by their place in the list.
    private(set) var failures: [ImagePrefetch.Failure] = []
    private var known: Set<ImagePrefetch.Item> = []

    private init(_ place: Place) { self.place = place }

    /// Reads a list.
    ///
    /// In text, empty lines and those that begin with `#` are passed over. In JSON, each element is a URL or an object with
    /// `url` and, if wanted, `cacheKey` and `expectedDigest`. An image that is listed twice is asked for once.
    /// - Parameter name: what the list is called in errors.
    /// - Throws: ``Failure`` that names the line or element which is no image. It does not repeat it: a URL may hold a
    ///   signature.
    static func parse(_ bytes: [UInt8], name: String) throws(Failure) -> PrefetchList {
        let name = name == "-" ? "standard input" : name.printable
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(name) is not UTF-8; is it a list of URLs?")
        }
        let list = try text.first { !$0.isWhitespace } == "[" ? array(text, name) : lines(text, name)
        guard !list.items.isEmpty || !list.failures.isEmpty else {
            throw Failure(.usage, "\(name) names no image; write one URL a line")
        }
        return list
    }

    private mutating func add(_ item: ImagePrefetch.Item) {
        if known.insert(item).inserted { items.append(item) }
    }

    /// Takes note of a URL that is longer than any request may have it; what it says is not looked at.
    /// - Returns: whether it is one.
    private mutating func refuses(_ url: String, at number: Int) -> Bool {
        let length = url.utf8.count
        guard length > ImageReference.longestURL else { return false }
        let error = WireError(
            .invalidParams, "the URL has \(length) bytes, it may have \(ImageReference.longestURL); shorten it")
        failures.append(ImagePrefetch.Failure(url: nil, line: number, error: error))
        return true
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

    private static func lines(_ text: String, _ name: String) throws(Failure) -> PrefetchList {
        var list = PrefetchList(.line)
        // A byte order mark is no part of the first URL.
        let text = text.unicodeScalars.first == "\u{FEFF}" ? text.unicodeScalars.dropFirst() : text.unicodeScalars[...]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let url = String(String.UnicodeScalarView(line)).trimmed
            if url.isEmpty || url.hasPrefix("#") || list.refuses(url, at: index + 1) { continue }
            guard isURL(url) else {
                throw Failure(.usage, "line \(index + 1) of \(name) is no URL of an image; write https://…, one a line")
            }
            list.add(ImagePrefetch.Item(ImageReference(url: url)))
        }
        return list
    }

    private static func array(_ text: String, _ name: String) throws(Failure) -> PrefetchList {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: text)
        } catch {
            throw Failure(.usage, "\(name) begins like a JSON array but is none: \(error)")
        }
        var list = PrefetchList(.element)
        for (index, element) in value.elements.enumerated() {
            if let url = element.string ?? element["url"]?.string, list.refuses(url, at: index + 1) { continue }
            let item: ImagePrefetch.Item
            do throws(WireError) {
                item = try ImagePrefetch.Item(element)
            } catch {
                throw Failure(.usage, "element \(index + 1) of \(name) is no image: \(error.detail)")
            }
            guard isURL(item.image.url) else {
                throw Failure(.usage, "element \(index + 1) of \(name) is no URL of an image; write \"https://…\"")
            }
            list.add(item)
        }
        return list
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
