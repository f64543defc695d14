/// What an origin gave us to ask later whether its document is still the same (RFC 9110, section 8.8).
///
/// Both members are sent back byte for byte as they came. A validator belongs to one body: keep it only together with
/// the document that was made of that body, or the origin will answer 304 for something that was never applied.
public struct Validator: Sendable, Hashable {
    /// The entity tag with its quotes, and `W/` if it is weak.
    public let etag: String?
    /// The `Last-Modified` field, not interpreted.
    public let lastModified: String?

    /// Makes a validator, or nothing if both members are missing or empty.
    public init?(etag: String? = nil, lastModified: String? = nil) {
        self.etag = Self.usable(etag)
        self.lastModified = Self.usable(lastModified)
        if self.etag == nil && self.lastModified == nil { return nil }
    }

    /// Longer validators are dropped rather than kept in every snapshot: nobody means them.
    private static let longest = 1024

    private static func usable(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= longest else { return nil }
        return text
    }
}
