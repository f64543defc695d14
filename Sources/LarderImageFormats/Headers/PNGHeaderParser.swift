/// PNG (section 5 of its specification): a signature, then chunks of length, type, data and checksum. `IHDR` comes
/// first and contains the size. `acTL`, which marks an animation, comes before the first `IDAT` (section 11.3.5).
struct PNGHeaderParser: TypedHeaderParser {
    var type: ImageType { .png }
    static var lookAhead: Int { 16 << 20 }

    private var size: (width: Int, height: Int)?
    private var frames = 1
    /// Whether the color type has an alpha channel or a `tRNS` chunk makes colors transparent.
    private var hasAlpha = false

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        guard let size else {
            let start = try PNGStart.read(window)
            (self.size, hasAlpha) = ((start.width, start.height), start.hasAlpha)
            return .consume(PNGStart.length)
        }
        guard window.count >= 8 else { return .need(8) }
        let length = window.big32(0)
        guard length <= 0x7FFF_FFFF else { return damaged("a chunk has the invalid length \(length)") }
        if window.has("IDAT", at: 4) { return found(size.width, size.height, frames: frames, hasAlpha: hasAlpha) }
        if window.has("acTL", at: 4), length == 8 {
            guard window.count >= 16 else { return .need(16) }
            // Decoders ignore an invalid number of frames and show the still image.
            let count = window.big32(8)
            if (1...0x7FFF_FFFF).contains(count) { frames = count }
        }
        if window.has("tRNS", at: 4) { hasAlpha = true }
        if window.has("IEND", at: 4) { return damaged("it has no image data") }
        let isType = (4..<8).allSatisfy { (0x41...0x5A).contains(window[$0] & 0xDF) }
        guard isType else { return damaged("a chunk has no type") }
        return .consume(length + 12)
    }
}

/// The signature of a PNG and its `IHDR` chunk (sections 5.2 and 11.2.1 of its specification).
struct PNGStart {
    /// The length of the signature and the chunk.
    static let length = 33

    let width: Int
    let height: Int
    /// Whether the color type has an alpha channel.
    let hasAlpha: Bool

    static func read(_ window: Span<UInt8>) throws(Unreadable) -> PNGStart {
        guard window.count >= length else { throw .needs(length) }
        guard isSignature(window), window.has("IHDR", at: 12), window.big32(8) == 13 else {
            throw .damaged("its first chunk is not IHDR")
        }
        // Decoders reject a PNG whose first chunk has a wrong checksum, but not wrong checksums of optional chunks.
        guard window.big32(29) == checksum(window.extracting(12..<29)) else {
            throw .damaged("the checksum of its IHDR chunk is wrong")
        }
        let (width, height) = (window.big32(16), window.big32(20))
        guard (1...0x7FFF_FFFF).contains(width), (1...0x7FFF_FFFF).contains(height) else {
            throw .damaged("it is \(width) by \(height) pixels")
        }
        guard isColor(depth: window[24], type: window[25]), window[26] == 0, window[27] == 0, window[28] <= 1 else {
            throw .damaged("its IHDR chunk is invalid")
        }
        return PNGStart(width: width, height: height, hasAlpha: window[25] & 4 != 0)
    }

    /// Whether the window, which must not be empty, begins with the signature.
    static func isSignature(_ window: Span<UInt8>) -> Bool {
        window[0] == 0x89 && window.has("PNG\r\n\u{1a}\n", at: 1)
    }

    /// Whether table 11.1 of the specification allows this combination of color type and bit depth.
    private static func isColor(depth: UInt8, type: UInt8) -> Bool {
        switch type {
        case 0: [1, 2, 4, 8, 16].contains(depth)
        case 3: [1, 2, 4, 8].contains(depth)
        case 2, 4, 6: [8, 16].contains(depth)
        default: false
        }
    }

    /// The CRC-32 of a chunk's type and data (section 5.5).
    private static func checksum(_ bytes: Span<UInt8>) -> Int {
        var value: UInt32 = .max
        for index in 0..<bytes.count {
            value ^= UInt32(bytes[index])
            for _ in 0..<8 { value = value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
        return Int(~value)
    }
}
