import LarderDigest
import TestSupport

/// A valid image of an exact size in bytes, different for every seed. It consists of a small gray picture and of random
/// bytes in a private chunk or a comment, which decoders ignore.
struct TestImage: Sendable {
    enum Format: String, CaseIterable, Sendable {
        case png, jpeg, gif, webp
    }

    let format: Format
    let bytes: [UInt8]

    /// - Parameter size: At least 200 bytes. Must be even for WebP, whose chunks have even sizes.
    init(_ format: Format = .png, seed: Int, size: Int) {
        self.format = format
        var filler = Filler(seed: seed)
        switch format {
        case .png: bytes = Self.png(size, &filler)
        case .jpeg: bytes = Self.jpeg(size, &filler)
        case .gif: bytes = Self.gif(size, &filler)
        case .webp: bytes = Self.webp(size, &filler)
        }
        precondition(bytes.count == size, "\(format) of \(bytes.count) bytes instead of \(size)")
    }

    /// The SHA-256 in lower-case hexadecimal digits.
    var digest: String { Self.digest(bytes) }

    static func digest(_ bytes: some Sequence<UInt8>) -> String {
        hex(SHA256.hash(bytes))
    }

    private static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }

    var mediaType: String { "image/\(format.rawValue)" }

    // MARK: PNG (PNG specification, third edition)

    private static func png(_ size: Int, _ filler: inout Filler) -> [UInt8] {
        let start = pngStart(width: 16, height: 16)
        // Each row begins with the number of its filter type.
        let pixels = (0..<16).flatMap { _ in [0] + [UInt8](repeating: 0x80, count: 16) }
        let picture = chunk("IDAT", zlib(pixels))
        let end = chunk("IEND", [])
        // A private chunk that is safe to copy, which decoders ignore.
        let room = size - start.count - picture.count - end.count - 12
        return start + chunk("laRr", filler.bytes(room)) + picture + end
    }

    /// The signature and the header: 8 bits of gray, no interlacing.
    static func pngStart(width: Int, height: Int) -> [UInt8] {
        [0x89] + Array("PNG\r\n\u{1A}\n".utf8) + chunk("IHDR", big(width, 4) + big(height, 4) + [8, 0, 0, 0, 0])
    }

    static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let content = Array(type.utf8) + data
        return big(data.count, 4) + content + big(Int(Checksum.crc32(content)), 4)
    }

    /// A zlib stream with the data in one uncompressed block (RFC 1950, RFC 1951).
    private static func zlib(_ data: [UInt8]) -> [UInt8] {
        var (a, b) = (1, 0)
        for byte in data {
            a = (a + Int(byte)) % 65521
            b = (b + a) % 65521
        }
        return [0x78, 0x01, 0x01] + little(data.count, 2) + little(~data.count & 0xFFFF, 2) + data + big(b << 16 | a, 4)
    }

    // MARK: JPEG (ITU T.81)

    private static func jpeg(_ size: Int, _ filler: inout Filler) -> [UInt8] {
        func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] { [0xFF, marker] + big(data.count + 2, 2) + data }
        let head: [UInt8] = [0xFF, 0xD8] + segment(0xE0, Array("JFIF\0".utf8) + [1, 1, 0, 0, 1, 0, 1, 0, 0])
        // Each Huffman table has a single code of one bit. In the DC table, the code means no difference from the
        // previous block; in the AC table, it means the end of the block.
        let tables =
            segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
            + segment(0xC4, [0x00, 1] + [UInt8](repeating: 0, count: 16))
            + segment(0xC4, [0x10, 1] + [UInt8](repeating: 0, count: 16))
        let picture = segment(0xC0, [8, 0, 8, 0, 8, 1, 1, 0x11, 0]) + segment(0xDA, [1, 1, 0x00, 0, 63, 0])
        let end: [UInt8] = [0x3F, 0xFF, 0xD9]
        var room = size - head.count - tables.count - picture.count - end.count
        var comments: [UInt8] = []
        while room > 0 {
            // If another comment segment is needed, at least the 4 bytes of its header are left for it.
            let length = room <= 65_537 ? room : min(65_537, room - 4)
            comments += segment(0xFE, filler.bytes(length - 4))
            room -= length
        }
        return head + comments + tables + picture + end
    }

    // MARK: GIF (GIF89a specification)

    private static func gif(_ size: Int, _ filler: inout Filler) -> [UInt8] {
        let head = Array("GIF89a".utf8) + [1, 0, 1, 0, 0x80, 0, 0, 0x80, 0x80, 0x80, 0, 0, 0, 0x21, 0xFE]
        let end: [UInt8] = [0x00, 0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 0x01, 0, 0x3B]
        var room = size - head.count - end.count
        var comment: [UInt8] = []
        while room > 0 {
            // A block has a length byte and at least one data byte.
            let length = room == 257 ? 254 : min(256, room)
            comment += [UInt8(length - 1)] + filler.bytes(length - 1)
            room -= length
        }
        return head + comment + end
    }

    // MARK: WebP (RFC 9649)

    private static func webp(_ size: Int, _ filler: inout Filler) -> [UInt8] {
        func part(_ name: String, _ data: [UInt8]) -> [UInt8] {
            Array(name.utf8) + little(data.count, 4) + data + (data.count.isMultiple(of: 2) ? [] : [0])
        }
        let extended = part("VP8X", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        let picture = part("VP8L", [0x2F, 0, 0, 0, 0x10, 0x07, 0x10, 0x11, 0x11, 0x88, 0x88, 0xFE, 0x07])
        let room = size - 12 - extended.count - picture.count - 8
        let content = Array("WEBP".utf8) + extended + picture + part("LRDR", filler.bytes(room))
        return Array("RIFF".utf8) + little(content.count, 4) + content
    }

    // MARK: Numbers

    private static func big(_ value: Int, _ length: Int) -> [UInt8] {
        (0..<length).map { UInt8(truncatingIfNeeded: value >> (8 * (length - 1 - $0))) }
    }

    private static func little(_ value: Int, _ length: Int) -> [UInt8] {
        (0..<length).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}

/// Random bytes that depend only on the seed.
private struct Filler {
    private var generator: SeededGenerator

    init(seed: Int) { generator = SeededGenerator(seed: UInt64(bitPattern: Int64(seed))) }

    mutating func bytes(_ count: Int) -> [UInt8] {
        precondition(count >= 0, "the size is too small for this format")
        return [UInt8](unsafeUninitializedCapacity: count + 8) { buffer, filled in
            var offset = 0
            while offset < count {
                UnsafeMutableRawBufferPointer(buffer).storeBytes(
                    of: generator.next(), toByteOffset: offset, as: UInt64.self)
                offset += 8
            }
            filled = count
        }
    }
}

/// The checksum of PNG chunks (ISO 3309).
private enum Checksum {
    private static let table: [UInt32] = (0..<256).map { number in
        (0..<8).reduce(UInt32(number)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    static func crc32(_ bytes: [UInt8]) -> UInt32 {
        let table = table
        return ~bytes.reduce(~0) { table[Int(($0 ^ UInt32($1)) & 0xFF)] ^ ($0 >> 8) }
    }
}
