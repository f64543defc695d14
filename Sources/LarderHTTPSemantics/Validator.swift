/// The validators of a response (RFC 9110, section 8.8). A later request sends them to find out whether the document
/// has changed.
///
/// Both fields are sent back byte for byte as they were received. A validator belongs to one body: store it only
/// together with the document that was read from that body. Otherwise the origin may answer 304 for a document that was
/// never applied.
package struct Validator: Sendable, Hashable {
    /// The entity tag, including its quotes and the prefix `W/` if it is weak.
    package let etag: String?
    /// The unparsed `Last-Modified` field.
    package let lastModified: String?

    /// Ignores empty values and values longer than 1 KiB. Returns nil if no usable value remains.
    package init?(etag: String? = nil, lastModified: String? = nil) {
        self.etag = Self.usable(etag)
        self.lastModified = Self.usable(lastModified)
        if self.etag == nil && self.lastModified == nil { return nil }
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
    package init?(etag: String?, lastModified: String?, date: String?, receivedAt: HTTPDate) {
        let sent = date.flatMap { HTTPDate(parsing: $0, now: receivedAt) } ?? receivedAt
        let changed = lastModified.flatMap { HTTPDate(parsing: $0, now: receivedAt) }
        let isStrong = changed.map { $0 < sent } ?? false
        let hasTag = Self.usable(etag) != nil
        self.init(etag: etag, lastModified: hasTag || isStrong ? lastModified : nil)
    }

    /// Longer values are ignored, because every configuration snapshot stores the validator and would grow with it.
    private static let maxBytes = 1024

    private static func usable(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= maxBytes else { return nil }
        return text
    }
}
