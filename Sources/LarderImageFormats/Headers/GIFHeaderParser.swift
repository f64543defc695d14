/// GIF (GIF89a specification, sections 17 to 20). The size is that of the logical screen, extended to contain the first
/// picture. A picture must not exceed the screen, but malicious files violate this rule, and viewers then enlarge the
/// screen.
///
/// GIF does not record the number of frames.
struct GIFHeaderParser: TypedHeaderParser {
    var type: ImageType { .gif }
    static var lookAhead: Int { 1 << 20 }

    private enum Place { case screen, blocks, subBlocks }
    private var place = Place.screen
    private var width = 0
    private var height = 0
    private var hasAlpha = false

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        switch place {
        case .screen:
            guard window.count >= 13 else { return .need(13) }
            (width, height) = (window.little16(6), window.little16(8))
            place = .blocks
            return .consume(13 + GIFTruncationCheck.colors(window[10]))
        case .blocks:
            switch window[0] {
            case 0x21:
                guard window.count >= 2 else { return .need(2) }
                // The graphic control extension of the first picture has a flag for a transparent color (section 23).
                if window[1] == 0xF9 {
                    guard window.count >= 4 else { return .need(4) }
                    hasAlpha = window[3] & 1 == 1
                }
                place = .subBlocks
                return .consume(2)
            case 0x2C:
                guard window.count >= 10 else { return .need(10) }
                return found(
                    max(width, window.little16(1) + window.little16(5)),
                    max(height, window.little16(3) + window.little16(7)), frames: nil,
                    hasAlpha: hasAlpha)
            case 0x3B: return damaged("it has no image data")
            default: return damaged("a block has an unknown type")
            }
        case .subBlocks:
            if window[0] == 0 { place = .blocks }
            return .consume(Int(window[0]) + 1)
        }
    }
}
