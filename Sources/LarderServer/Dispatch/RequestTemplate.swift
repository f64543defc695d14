import LarderJSON
import LarderProtocol

/// A request line in three parts: the text before its id, the id, and the text behind it.
///
/// Two lines with the same head and rest, each with a whole number or a plain string in between, are either both valid
/// requests for the same or both invalid. After one of them was parsed, the other need not be, provided that the text in
/// between is the id: ``confirms(idAt:)`` checks that with a parsed message.
struct RequestTemplate {
    let head: UnsafeRawBufferPointer
    let id: UnsafeRawBufferPointer
    let rest: UnsafeRawBufferPointer
    private let hash: UInt64

    /// Longer lines are parsed.
    private static let maxLineBytes = 512

    /// Finds the first `"id":` in a line. Nil if there is none, or if no whole number and no plain string follows.
    init?(_ line: UnsafeRawBufferPointer) {
        guard line.count <= Self.maxLineBytes, line.first == UInt8(ascii: "{"), var start = Self.endOfName(line)
        else { return nil }
        while start < line.count, line[start] == UInt8(ascii: " ") { start += 1 }
        guard let end = Self.endOfNumber(line, start) ?? Self.endOfString(line, start) else { return nil }
        head = UnsafeRawBufferPointer(rebasing: line[..<start])
        id = UnsafeRawBufferPointer(rebasing: line[start..<end])
        rest = UnsafeRawBufferPointer(rebasing: line[end...])
        // The id stands at one end of most lines, so the longer part distinguishes them.
        hash = Self.hash(rest.count >= head.count ? rest : head)
    }

    /// Whether the part that was found is the id of the parsed message of the line.
    /// - Parameter range: where the id of the message is in the line.
    func confirms(idAt range: Range<Int>?) -> Bool { range == head.count..<head.count + id.count }

    /// A slot for the template in a table. A client that makes slots collide takes the benefit of the table from the other
    /// connections of the loop, too: their requests are then parsed like any other, and no worse.
    /// - Parameter slots: how many there are, a power of two.
    func slot(of slots: Int) -> Int { Int(truncatingIfNeeded: (hash ^ (hash >> 32)) & UInt64(slots - 1)) }

    /// What distinguishes the template from most others.
    var fingerprint: UInt64 { hash }

    /// FNV-1a over eight bytes at a time.
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
            // The last eight bytes, some of them again.
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
        // "id" as four bytes in one word, whatever their order in it.
        let name = UInt32(littleEndian: 0x2264_6922)
        // The usual beginning contains no id.
        var position = hasUsualBeginning(line) ? 17 : 1
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
    private static func hasUsualBeginning(_ line: UnsafeRawBufferPointer) -> Bool {
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
            // The parser decides about escapes, control characters and text that is not ASCII.
            guard line[end] >= 0x20, line[end] < 0x7F, line[end] != UInt8(ascii: "\\") else { return nil }
            end += 1
        }
        return end < line.count ? end + 1 : nil
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}

extension RequestID {
    /// The id of a request whose template is that of one that was parsed.
    init(_ template: RequestTemplate) { self.init(text: String(decoding: template.id, as: UTF8.self)) }
}
