/// The validators of a response (RFC 9110, section 8.8), with which a later request asks whether the document has changed.
///
/// Both fields are sent back byte for byte as they were received. A validator belongs to one body: keep it only together with
/// the document that was made of that body. Otherwise the origin answers 304 for a document that was never applied.
package struct Validator: Sendable, Hashable {
    /// The entity tag with its quotes, and `W/` if it is weak.
    package let etag: String?
    /// The `Last-Modified` field, not interpreted.
    package let lastModified: String?

    /// Returns nil if both fields are missing, empty or too long.
    package init?(etag: String? = nil, lastModified: String? = nil) {
        self.etag = Self.usable(etag)
        self.lastModified = Self.usable(lastModified)
        if self.etag == nil && self.lastModified == nil { return nil }
    }

    /// Longer fields are ignored, since every snapshot would keep them.
    private static let maxBytes = 1024

    private static func usable(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= maxBytes else { return nil }
        return text
    }
}
