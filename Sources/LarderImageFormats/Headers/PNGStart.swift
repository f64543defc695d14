/// The signature of a PNG and its `IHDR` chunk (sections 5.2 and 11.2.1 of its specification).
struct PNGStart {
    /// The length of the signature and the chunk.
    static let length = 33

    let width: Int
    let height: Int
    /// Whether the colour type has an alpha channel.
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
        guard isColour(depth: window[24], type: window[25]), window[26] == 0, window[27] == 0, window[28] <= 1 else {
            throw .damaged("its IHDR chunk is invalid")
        }
        return PNGStart(width: width, height: height, hasAlpha: window[25] & 4 != 0)
    }

    /// Whether the window, which must not be empty, begins with the signature.
    static func isSignature(_ window: Span<UInt8>) -> Bool {
        window[0] == 0x89 && window.has("PNG\r\n\u{1a}\n", at: 1)
    }

    /// Whether table 11.1 of the specification allows this combination of colour type and bit depth.
    private static func isColour(depth: UInt8, type: UInt8) -> Bool {
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
