/// PNG (section 5 of its specification): a signature, then chunks of length, type, data and checksum. `IHDR` comes
/// first and contains the size. `acTL`, which marks an animation, comes before the first `IDAT` (section 11.3.5).
struct PNGHeaderParser: TypedHeaderParser {
    var type: ImageType { .png }
    static var lookAhead: Int { 16 << 20 }

    private var size: (width: Int, height: Int)?
    private var frames = 1
    /// Whether the colour type has an alpha channel or a `tRNS` chunk makes colours transparent.
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
