import Crypto
public import JSON

/// A complete, resolved configuration that never changes any more.
///
/// A class, so that handing it to a thousand readers costs one reference count each and no copy.
public final class ConfigSnapshot: Sendable {
    /// The resolved configuration, always an object; its text is compact JSON.
    public let value: JSONValue
    /// The local revision; 0 only for the placeholder before anything was published.
    public let revision: Int
    /// SHA-256 of ``value``'s compact text, in lower-case hex.
    public let digest: String
    /// When it was published, in milliseconds since 1970.
    public let publishedAt: Int

    init(value: JSONValue, revision: Int, digest: String, publishedAt: Int) {
        self.value = value
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
    }

    /// The size of the compact text in bytes.
    public var bytes: Int { value.withTextBytes { $0.count } }

    /// The digest of a value's text, as ``digest`` holds it.
    static func digest(of value: JSONValue) -> String {
        value.withTextBytes { SHA256.hash(data: $0).hex }
    }
}

extension Digest {
    /// Lower-case hex.
    var hex: String {
        String(unsafeUninitializedCapacity: 2 * Self.byteCount) { text in
            var end = 0
            for byte in self {
                text[end] = Self.digit(byte >> 4)
                text[end + 1] = Self.digit(byte & 15)
                end += 2
            }
            return end
        }
    }

    private static func digit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 0x30 + nibble : 0x57 + nibble }
}
