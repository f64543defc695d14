import Glibc

/// Finds the ends of HTTP/1.1 responses and of chunks in streams. It supports only the output of etcd's gateway: header
/// names as Go writes them, and chunks without extensions.
enum HTTPFraming {
    static func firstFrame(in bytes: UnsafeRawBufferPointer) -> ReplyFraming.Frame {
        guard let first = bytes.first else { return .partial(scanned: 0) }
        return first == UInt8(ascii: "H") ? firstResponse(in: bytes) : firstChunk(in: bytes)
    }

    private static func firstResponse(in bytes: UnsafeRawBufferPointer) -> ReplyFraming.Frame {
        guard let blank = ReplyText.offset(of: "\r\n\r\n", in: bytes) else { return .partial(scanned: 0) }
        let end = blank + 4
        let head = UnsafeRawBufferPointer(rebasing: bytes[..<end])
        if ReplyText.offset(of: "\r\nTransfer-Encoding: chunked\r\n", in: head) != nil { return .complete(end) }
        let name = "\r\nContent-Length: "
        guard let field = ReplyText.offset(of: name, in: head) else { return .malformed }
        var length = 0
        for byte in head[(field + name.utf8.count)...] {
            guard byte != UInt8(ascii: "\r") else { break }
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte), length < 1 << 30 else { return .malformed }
            length = length * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return bytes.count - end >= length ? .complete(end + length) : .partial(scanned: 0)
    }

    private static func firstChunk(in bytes: UnsafeRawBufferPointer) -> ReplyFraming.Frame {
        guard let start = ReplyFraming.endOfLine(in: bytes, from: 0) else {
            return bytes.count > 16 ? .malformed : .partial(scanned: 0)
        }
        guard start > 2, start <= 10,
            let length = Int(String(decoding: bytes[..<(start - 2)], as: UTF8.self), radix: 16), length >= 0
        else { return .malformed }
        return bytes.count - start >= length + 2 ? .complete(start + length + 2) : .partial(scanned: 0)
    }
}
