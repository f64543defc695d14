/// The validators of a response (RFC 9110, section 8.8). A later request sends them to find out whether the document
/// has changed.
///
/// Both fields are sent back byte for byte as they were received. A validator belongs to one body: store it only
/// together with the document that was read from that body. Otherwise the origin may answer 304 for a document that was
/// never applied. It also belongs to the URL that issued it, because another URL may use the same entity tag or an
/// earlier date for another document.
package struct Validator: Sendable, Hashable {
    /// The entity tag, including its quotes and the prefix `W/` if it is weak.
    package let etag: String?
    /// The unparsed `Last-Modified` field.
    package let lastModified: String?
    /// The URL that issued the validator, after redirects. Nil for a validator that no server issued, such as the
    /// digest of a file; no request contains such a validator.
    package let url: String?

    /// Ignores empty values and values longer than 1 KiB. Returns nil if no usable value remains, or if the URL is
    /// longer than 8 KiB.
    package init?(etag: String? = nil, lastModified: String? = nil, url: String? = nil) {
        self.etag = Self.usable(etag)
        self.lastModified = Self.usable(lastModified)
        self.url = url
        if self.etag == nil && self.lastModified == nil || (url?.utf8.count ?? 0) > Self.maxURLBytes { return nil }
    }

    /// Creates the validator of a response from its header fields.
    ///
    /// Without an entity tag, `Last-Modified` is used only if it is at least one second before `Date` (RFC 9110,
    /// section 8.8.2.2). Otherwise the document may have changed again in the same second, and the origin would answer
    /// 304 for the older document. Nil then, so the next request fetches the whole document.
    ///
    /// - Parameters:
    ///   - date: the unparsed `Date` field; if it is absent or invalid, `receivedAt` is used (section 6.6.1)
    ///   - receivedAt: when the response arrived
    ///   - url: the URL that sent the response, after redirects
    package init?(etag: String?, lastModified: String?, date: String?, receivedAt: HTTPDate, url: String) {
        let sent = date.flatMap { HTTPDate(parsing: $0, now: receivedAt) } ?? receivedAt
        let changed = lastModified.flatMap { HTTPDate(parsing: $0, now: receivedAt) }
        let isStrong = changed.map { $0 < sent } ?? false
        let hasTag = Self.usable(etag) != nil
        self.init(etag: etag, lastModified: hasTag || isStrong ? lastModified : nil, url: url)
    }

    package static func == (left: Validator, right: Validator) -> Bool { left.bytes == right.bytes }

    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// The fields as bytes, because `==` of `String` ignores differences in Unicode normalization.
    private var bytes: [[UInt8]?] { [etag, lastModified, url].map { $0.map { Array($0.utf8) } } }

    /// Whether a request to `url` may contain the validator.
    package func isIssued(by url: String) -> Bool { self.url?.utf8.elementsEqual(url.utf8) ?? false }

    /// Whether a 304 response to a request with this validator confirms its document (RFC 9111, section 4.3.4): the
    /// entity tag of the response must match, and so must its `Last-Modified`, unless both tags are strong. A field that
    /// the response does not have matches. Tags are compared weakly, because servers weaken only the tag of a
    /// compressed 200 response.
    package func isConfirmed(byTag tag: String?, lastModified: String?) -> Bool {
        if let tag = tag?.utf8 {
            guard let etag = etag?.utf8 else { return false }
            let weak = "W/".utf8
            let (isWeak, wasWeak) = (tag.starts(with: weak), etag.starts(with: weak))
            guard tag.dropFirst(isWeak ? 2 : 0).elementsEqual(etag.dropFirst(wasWeak ? 2 : 0)) else { return false }
            if !isWeak && !wasWeak { return true }
        }
        guard let new = lastModified, let old = self.lastModified else { return true }
        return new.utf8.elementsEqual(old.utf8)
    }

    /// Longer values are ignored, because every configuration snapshot stores the validator and would grow with it.
    private static let (maxBytes, maxURLBytes) = (1024, 8192)

    private static func usable(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= maxBytes else { return nil }
        return text
    }
}

/// A `Content-Range` in bytes (RFC 9110, section 14.4) that extends to the end of the representation, such as
/// `bytes 500-999/1000`.
package struct ContentRange: Sendable, Hashable {
    /// The offset of the first byte.
    package let start: Int
    /// The length of the complete representation, in bytes.
    package let total: Int

    /// Parses the field. Nil if it is invalid, has another unit or an unknown total, or if the range ends before the
    /// last byte.
    package init?(_ field: String) {
        guard field.lowercased().hasPrefix("bytes ") else { return nil }
        let numbers = field.dropFirst(6).split(separator: "/", omittingEmptySubsequences: false)
        guard numbers.count == 2, let total = Self.number(numbers[1]) else { return nil }
        let places = numbers[0].split(separator: "-", omittingEmptySubsequences: false)
        guard places.count == 2, let start = Self.number(places[0]), let last = Self.number(places[1]) else {
            return nil
        }
        guard start <= last, last == total - 1 else { return nil }
        (self.start, self.total) = (start, total)
    }

    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }
}
