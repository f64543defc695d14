/// WebP (RFC 9649): a RIFF file whose first chunk contains the size. The chunk is `VP8 ` (lossy), `VP8L` (lossless) or
/// `VP8X` (extended).
///
/// WebP does not record the number of frames of an animation.
struct WebPHeaderParser: TypedHeaderParser {
    var type: ImageType { .webp }
    static var lookAhead: Int { 64 }

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        guard window.count >= 16 else { return .need(16) }
        // The smallest lossless image has 26 bytes, so the parser must not require 30 bytes for a lossless image.
        let isLossless = window.has("VP8L", at: 12)
        let needed = isLossless ? 25 : 30
        guard window.count >= needed else { return .need(needed) }
        guard window.little32(4) >= 12 + window.little32(16) else {
            return damaged("its first chunk is longer than the file according to its RIFF header")
        }
        if isLossless { return lossless(window) }
        if window.has("VP8 ", at: 12) { return lossy(window) }
        if window.has("VP8X", at: 12) { return extended(window) }
        return damaged("its first chunk is unknown")
    }

    /// A VP8 key frame (RFC 6386, section 9.1): a tag of three bytes, a start code, and 14 bits for each side.
    private func lossy(_ window: Span<UInt8>) -> HeaderStep {
        guard window[20] & 1 == 0, window[23] == 0x9D, window[24] == 0x01, window[25] == 0x2A else {
            return damaged("it does not begin with a key frame")
        }
        return found(window.little16(26) & 0x3FFF, window.little16(28) & 0x3FFF, frames: 1, hasAlpha: false)
    }

    /// A `VP8L` chunk (RFC 9649, section 3.4): a signature, 14 bits for each side minus one, one bit for alpha, and
    /// three for the version, which is 0.
    private func lossless(_ window: Span<UInt8>) -> HeaderStep {
        let bits = window.little32(21)
        guard window[20] == 0x2F, bits >> 29 == 0 else { return damaged("its lossless header is invalid") }
        return found((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, frames: 1, hasAlpha: bits >> 28 & 1 == 1)
    }

    /// A `VP8X` chunk (RFC 9649, section 2.7): flags, then 24 bits for each side of the canvas minus one.
    private func extended(_ window: Span<UInt8>) -> HeaderStep {
        guard window.little32(16) >= 10 else { return damaged("its VP8X chunk is too short") }
        let isAnimated = window[20] & 0x02 != 0
        return found(
            window.little24(24) + 1, window.little24(27) + 1, frames: isAnimated ? nil : 1, isAnimated: isAnimated,
            hasAlpha: window[20] & 0x10 != 0)
    }
}
