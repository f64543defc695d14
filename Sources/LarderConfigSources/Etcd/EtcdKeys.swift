import FoundationEssentials
package import LarderJSON

/// The range of keys that a source reads.
///
/// Keys in etcd are byte strings. A "directory" is only a common prefix of keys.
package struct EtcdKeys: Sendable, Equatable {
    /// The first key of the range.
    package let first: [UInt8]
    /// The end of the range, which is not part of it; nil for a range of one key.
    package let end: [UInt8]?
}

extension EtcdKeys {
    /// One key, or all keys with a prefix.
    init(_ keys: EtcdSourceSettings.Keys) {
        switch keys {
        case .key(let key):
            self.init(first: Array(key.utf8), end: nil)
        case .prefix(let prefix):
            // Keys in etcd are never empty, so a range cannot begin with the empty prefix. A range from NUL to NUL
            // contains all keys.
            let bytes = Array(prefix.utf8)
            self.init(first: bytes.isEmpty ? [0] : bytes, end: Self.end(ofPrefix: bytes))
        }
    }

    /// The rest of the range after a key, for the next page.
    package func from(after key: [UInt8]) -> EtcdKeys { EtcdKeys(first: key + [0], end: end) }

    /// The smallest key that is larger than all keys with a prefix; NUL, which means "no end", if no such key exists.
    private static func end(ofPrefix prefix: [UInt8]) -> [UInt8] {
        var end = prefix
        while let last = end.popLast() {
            if last < 0xff { return end + [last + 1] }
        }
        return [0]
    }
}

/// Base64 with padding, the format of bytes in the JSON of protocol buffers.
enum Base64 {
    static func text(of bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    static func bytes(of text: String) -> [UInt8]? { Data(base64Encoded: text).map { [UInt8]($0) } }
}

extension JSONWriter {
    /// Writes the members `key` and `range_end` of a request.
    package mutating func write(_ keys: EtcdKeys) {
        member("key", Base64.text(of: keys.first))
        if let end = keys.end { member("range_end", Base64.text(of: end)) }
    }
}
