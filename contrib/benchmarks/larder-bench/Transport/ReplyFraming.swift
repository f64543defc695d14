import Glibc

/// How the end of one reply is found in a stream of bytes.
///
/// Only the end matters: a load generator that decoded replies would measure itself. What a reply says is checked
/// elsewhere, by comparing its first bytes with those of a reply that was read in full beforehand.
enum ReplyFraming: Sendable {
    /// A reply ends with the next LF.
    case line
    /// A reply is one RESP2 value (redis.io/docs/latest/develop/reference/protocol-spec).
    case resp
    /// A reply is one HTTP/1.1 response with a `Content-Length`; of a chunked one, which is a stream, the head is a reply
    /// and so is each chunk (RFC 9112, sections 6 and 7).
    case http

    /// What the bytes at hand begin with.
    enum Frame: Equatable {
        /// A whole reply of this many bytes.
        case complete(Int)
        /// The beginning of a reply, in which these first bytes need no second look.
        case partial(scanned: Int)
        /// No reply at all.
        case malformed
    }

    /// Finds the first reply in `bytes`.
    /// - Parameter scanned: what an earlier `.partial` said about the same bytes; 0 for new ones.
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

    /// The offset after the next LF at or after `start`.
    @inline(__always)
    static func endOfLine(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = bytes.baseAddress, start < bytes.count,
            let found = memchr(base + start, 0x0A, bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base + 1
    }

    /// Walks over one RESP2 value. An incomplete one is walked again from its start: its parts are skipped by their
    /// stated lengths, so that this costs next to nothing.
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

    /// The decimal number in a range of bytes, at most 512 MiB (the longest string that Redis knows).
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
