import Glibc

/// The rule that finds the end of a reply in a stream of bytes.
///
/// Replies are not decoded, because a load generator that decoded them would mostly measure itself. Their content is
/// checked by comparing the first bytes with those of a reply that was checked completely beforehand.
enum ReplyFraming: Sendable {
    /// A reply ends with the next LF.
    case line
    /// A reply is one RESP2 value (redis.io/docs/latest/develop/reference/protocol-spec).
    case resp
    /// A reply is one HTTP/1.1 response with a `Content-Length`. In a chunked response, which is a stream, the head and
    /// each chunk are replies (RFC 9112, sections 6 and 7).
    case http

    /// The result of a search for the end of a reply.
    enum Frame: Equatable {
        /// A complete reply of this many bytes.
        case complete(Int)
        /// An incomplete reply. The first `scanned` bytes need not be searched again.
        case partial(scanned: Int)
        /// Not a reply.
        case malformed
    }

    /// Finds the first reply in `bytes`.
    /// - Parameter scanned: the number in the last `.partial` result for this reply; 0 for a new reply.
    @inline(__always)
    func firstFrame(in bytes: UnsafeRawBufferPointer, scanned: Int = 0) -> Frame {
        switch self {
        case .line:
            if let end = Self.endOfLine(in: bytes, from: scanned) { return .complete(end) }
            return .partial(scanned: bytes.count)
        case .resp:
            return Self.firstValue(in: bytes)
        case .http:
            return HTTPFraming.firstFrame(in: bytes)
        }
    }

    /// The offset after the first LF at or after `start`; nil if there is no LF.
    @inline(__always)
    static func endOfLine(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = bytes.baseAddress, start < bytes.count,
            let found = memchr(base + start, 0x0A, bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base + 1
    }

    /// Finds the end of one RESP2 value. An incomplete value is parsed again from its start. This is cheap, because
    /// strings are skipped by their length.
    private static func firstValue(in bytes: UnsafeRawBufferPointer) -> Frame {
        var offset = 0
        var wanted = 1
        while wanted > 0 {
            guard let lineEnd = endOfLine(in: bytes, from: offset) else { return .partial(scanned: 0) }
            let type = bytes[offset]
            switch type {
            case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: ":"):
                offset = lineEnd
            case UInt8(ascii: "$"), UInt8(ascii: "*"):
                guard let count = number(in: bytes, from: offset + 1, to: lineEnd - 2) else { return .malformed }
                offset = lineEnd
                if count < 0 { break }  // the null bulk string and the null array have no body
                if type == UInt8(ascii: "*") {
                    wanted += count
                } else {
                    guard bytes.count - offset >= count + 2 else { return .partial(scanned: 0) }
                    offset += count + 2
                }
            default:
                return .malformed
            }
            wanted -= 1
        }
        return .complete(offset)
    }

    /// The decimal number in a range of bytes. Nil if it is invalid or much larger than 512 MiB, the maximum length of
    /// a Redis string.
    private static func number(in bytes: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Int? {
        guard start < end else { return nil }
        let negative = bytes[start] == UInt8(ascii: "-")
        var value = 0
        for offset in (negative ? start + 1 : start)..<end {
            let digit = Int(bytes[offset]) - 0x30
            guard (0...9).contains(digit), value <= 1 << 29 else { return nil }
            value = value * 10 + digit
        }
        return negative ? -value : value
    }
}
