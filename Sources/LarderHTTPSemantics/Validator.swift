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

    /// Longer values are ignored, because every configuration snapshot stores the validator and would grow with it.
    private static let maxBytes = 1024

    private static func usable(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= maxBytes else { return nil }
        return text
    }
}
