import JSON

/// The images that `larder image prefetch` is given: one URL a line, or a JSON array.
enum PrefetchList {
    /// Reads a list.
    ///
    /// In text, empty lines and those that begin with `#` are passed over. In JSON, each element is a URL or an object with
    /// `url` and, if wanted, `cacheKey` and `expectedDigest`. An image that is listed twice is asked for once.
    /// - Parameter name: what the list is called in errors.
    /// - Throws: ``Failure`` that names the line or element which is no image. It does not repeat it: a URL may hold a
    ///   signature.
    static func parse(_ bytes: [UInt8], name: String) throws(Failure) -> [JSONValue] {
        let name = name == "-" ? "standard input" : name.printable
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(name) is not UTF-8; is it a list of URLs?")
        }
        let items = try text.first { !$0.isWhitespace } == "[" ? array(text, name) : lines(text, name)
        if items.isEmpty { throw Failure(.usage, "\(name) names no image; write one URL a line") }
        var known: Set<String> = []
        return items.filter { known.insert($0.compactText).inserted }
    }

    /// Cuts a list into portions that the agent takes in one request each.
    /// - Parameters:
    ///   - mostItems: the most images in one request.
    ///   - mostBytes: the most bytes of JSON that the images of one request may have.
    static func portions(_ items: [JSONValue], mostItems: Int, mostBytes: Int) -> [ArraySlice<JSONValue>] {
        var portions: [ArraySlice<JSONValue>] = []
        var start = 0
        var size = 0
        for (index, item) in items.enumerated() {
            // With the comma.
            let bytes = item.compactText.utf8.count + 1
            if index > start, index - start == mostItems || size + bytes > mostBytes {
                portions.append(items[start..<index])
                (start, size) = (index, 0)
            }
            size += bytes
        }
        if start < items.count { portions.append(items[start...]) }
        return portions
    }

    private static func lines(_ text: String, _ name: String) throws(Failure) -> [JSONValue] {
        var items: [JSONValue] = []
        // A byte order mark is no part of the first URL.
        let text = text.unicodeScalars.first == "\u{FEFF}" ? text.unicodeScalars.dropFirst() : text.unicodeScalars[...]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let url = String(String.UnicodeScalarView(line)).trimmed
            if url.isEmpty || url.hasPrefix("#") { continue }
            guard isURL(url) else {
                throw Failure(.usage, "line \(index + 1) of \(name) is no URL of an image; write https://…, one a line")
            }
            items.append(.string(url))
        }
        return items
    }

    private static func array(_ text: String, _ name: String) throws(Failure) -> [JSONValue] {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: text)
        } catch {
            throw Failure(.usage, "\(name) begins like a JSON array but is none: \(error)")
        }
        for (index, element) in value.elements.enumerated() {
            guard let url = element.string ?? element["url"]?.string, isURL(url) else {
                throw Failure(
                    .usage, "element \(index + 1) of \(name) is no image; write \"https://…\" or {\"url\": \"https://…\"}")
            }
        }
        return Array(value.elements)
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
