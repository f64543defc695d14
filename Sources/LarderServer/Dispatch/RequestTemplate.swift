import LarderProtocol

/// A request line in three parts: the text before its id, the id, and the text after it.
///
/// If two lines differ only in the id, and both ids are whole numbers or plain strings, then both lines are invalid or
/// both are valid requests for the same thing. So after one line has been parsed, the other need not be, provided that
/// the middle part is really the id. ``confirms(idAt:)`` checks that with the parsed message.
struct RequestTemplate {
    let head: UnsafeRawBufferPointer
    let id: UnsafeRawBufferPointer
    let rest: UnsafeRawBufferPointer
    /// A hash that distinguishes the template from most others.
    let hash: UInt64

    /// Lines with more bytes than this have no template and are always parsed.
    private static let maxLineBytes = 512

    /// Finds the first `"id":` in a line. Nil if it does not occur, or if neither a whole number nor a plain string
    /// follows.
    init?(_ line: UnsafeRawBufferPointer) {
        guard line.count <= Self.maxLineBytes, line.first == UInt8(ascii: "{"), var start = Self.endOfName(line)
        else { return nil }
        while start < line.count, line[start] == UInt8(ascii: " ") { start += 1 }
        guard let end = Self.endOfNumber(line, start) ?? Self.endOfString(line, start) else { return nil }
        head = UnsafeRawBufferPointer(rebasing: line[..<start])
        id = UnsafeRawBufferPointer(rebasing: line[start..<end])
        rest = UnsafeRawBufferPointer(rebasing: line[end...])
        // Only the longer one of the two parts around the id is hashed. The id is near one end of most lines, so the
        // longer part is most of the line.
        hash = Self.hash(rest.count >= head.count ? rest : head)
    }

    /// Whether the middle part is the id of the message.
    /// - Parameter range: the position of the message's id in the line
    func confirms(idAt range: Range<Int>?) -> Bool { range == head.count..<head.count + id.count }

    /// The slot of the template in a table. A client can cause collisions on purpose. The other connections of its loop
    /// then lose the benefit of the table: their requests are parsed, but not otherwise affected.
    /// - Parameter slots: the number of slots, a power of two
    func slot(of slots: Int) -> Int { Int(truncatingIfNeeded: (hash ^ (hash >> 32)) & UInt64(slots - 1)) }

    /// An FNV-1a variant that processes eight bytes at a time.
    private static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        var offset = 0
        while offset + 8 <= bytes.count {
            hash = (hash ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0x0000_0100_0000_01b3
            hash ^= hash >> 29
            offset += 8
        }
        if offset == bytes.count { return hash }
        if bytes.count >= 8 {
            // The remaining one to seven bytes are hashed as the end of the last eight bytes. The others of these eight
            // are already part of the hash.
            let last = bytes.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)
            hash = (hash ^ last) &* 0x0000_0100_0000_01b3
            return hash ^ hash >> 29
        }
        while offset < bytes.count {
            hash = (hash ^ UInt64(bytes[offset])) &* 0x0000_0100_0000_01b3
            offset += 1
        }
        return hash
    }

    private static func endOfName(_ line: UnsafeRawBufferPointer) -> Int? {
        // `"id"` as a 32-bit word in the byte order of the machine.
        let name = UInt32(littleEndian: 0x2264_6922)
        // The usual beginning of a line contains no id, so it is skipped.
        var position = hasCommonPrefix(line) ? 17 : 1
        while position + 5 <= line.count {
            if line.loadUnaligned(fromByteOffset: position, as: UInt32.self) == name,
                line[position + 4] == UInt8(ascii: ":")
            {
                return position + 5
            }
            position += 1
        }
        return nil
    }

    /// Whether a line begins with `{"jsonrpc":"2.0",`, compared as two words and a byte.
    private static func hasCommonPrefix(_ line: UnsafeRawBufferPointer) -> Bool {
        guard line.count > 17 else { return false }
        return line.loadUnaligned(as: UInt64.self) == UInt64(littleEndian: 0x7072_6e6f_736a_227b)
            && line.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == UInt64(littleEndian: 0x2230_2e32_223a_2263)
            && line[16] == UInt8(ascii: ",")
    }

    private static func endOfNumber(_ line: UnsafeRawBufferPointer, _ start: Int) -> Int? {
        var end = start
        while end < line.count, isDigit(line[end]) { end += 1 }
        // A number with a leading zero is invalid.
        return end == start || (line[start] == UInt8(ascii: "0") && end > start + 1) ? nil : end
    }

    private static func endOfString(_ line: UnsafeRawBufferPointer, _ start: Int) -> Int? {
        guard start < line.count, line[start] == UInt8(ascii: "\"") else { return nil }
        var end = start + 1
        while end < line.count, line[end] != UInt8(ascii: "\"") {
            // Strings with escapes, control characters or non-ASCII text are left to the parser.
            guard line[end] >= 0x20, line[end] < 0x7F, line[end] != UInt8(ascii: "\\") else { return nil }
            end += 1
        }
        return end < line.count ? end + 1 : nil
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}

extension RequestID {
    /// The id of a line that was not parsed, because its template matches that of an earlier, parsed line.
    init(_ template: RequestTemplate) { self.init(text: String(decoding: template.id, as: UTF8.self)) }
}
