/// PNG (section 5 of its specification): a signature, then chunks of length, type, data and checksum. `IHDR` comes
/// first and contains the size. `acTL`, which marks an animation, comes before the first `IDAT` (section 11.3.5).
struct PNGHeaderParser: TypedHeaderParser {
    var type: ImageType { .png }
    static var lookAhead: Int { 16 << 20 }

    private var size: (width: Int, height: Int)?
    private var frames = 1
    /// Whether the colour type has an alpha channel or a `tRNS` chunk makes colours transparent.
    private var hasAlpha = false

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        guard let size else { return header(window) }
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

    private mutating func header(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 33 else { return .need(33) }
        guard window.has("IHDR", at: 12), window.big32(8) == 13 else { return damaged("its first chunk is not IHDR") }
        let (width, height) = (window.big32(16), window.big32(20))
        guard (1...0x7FFF_FFFF).contains(width), (1...0x7FFF_FFFF).contains(height) else {
            return damaged("it is \(width) by \(height) pixels")
        }
        guard Self.isColour(depth: window[24], type: window[25]), window[26] == 0, window[27] == 0, window[28] <= 1
        else {
            return damaged("its IHDR chunk is invalid")
        }
        size = (width, height)
        hasAlpha = window[25] & 4 != 0
        return .consume(33)
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
}
