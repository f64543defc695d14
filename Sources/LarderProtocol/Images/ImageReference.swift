public import LarderJSON

/// Which image is meant: the parameters that the methods on one image share.
public struct ImageReference: WireParameters, Hashable {
    /// The most bytes that a URL may have.
    public static let longestURL = 8192
    /// The most bytes that a cache key may have.
    public static let longestCacheKey = 512

    /// An absolute `http` or `https` URL.
    public var url: String
    /// What it is looked up by instead of the URL, within the URL's origin: for signed URLs, which are never the same
    /// twice. 1 to 512 bytes.
    public var cacheKey: String?
    public static var positional: [String] { ["url", "cacheKey"] }
    public init(url: String, cacheKey: String? = nil) {
        self.url = url
        self.cacheKey = cacheKey
    }
    public init(from reader: MemberReader) throws(WireError) {
        url = try reader.requiredText("url", bytes: 1...Self.longestURL)
        cacheKey = try reader.text("cacheKey", bytes: 1...Self.longestCacheKey)
    }
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writeMembers(to: &writer)
        writer.endObject()
    }

    /// Writes its members into an object that is open.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("url", url)
        writer.member("cacheKey", cacheKey)
    }
}

extension MemberReader {
    /// A string of a length in bytes; nil where the member is absent or null. An error does not repeat it: a URL may
    /// carry a secret.
    func text(_ name: String, bytes range: ClosedRange<Int>) throws(WireError) -> String? {
        guard let text = try string(name) else { return nil }
        guard range.contains(text.utf8.count) else {
            throw WireError(
                .invalidParams,
                "\"\(name)\" has \(text.utf8.count) bytes, it must have from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return text
    }

    /// A string of a length in bytes that must be there.
    func requiredText(_ name: String, bytes range: ClosedRange<Int>) throws(WireError) -> String {
        guard let text = try text(name, bytes: range) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return text
    }

    /// One of several words; nil where the member is absent or null.
    func word<Word: RawRepresentable<String> & CaseIterable>(
        _ name: String, _ type: Word.Type
    ) throws(WireError) -> Word? {
        guard let text = try string(name) else { return nil }
        guard let word = Word(rawValue: text) else {
            let known = Word.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
            throw WireError(.invalidParams, "\"\(name)\" must be one of \(known)")
        }
        return word
    }
}
