/// PNG: chunks up to and including `IEND`. Each frame of an animation has one `fcTL` chunk.
struct PNGTruncationCheck: TruncationCheck {
    private var isStarted = false
    private var frames = 0

    var frameCount: Int? { frames }

    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        guard isStarted else {
            isStarted = true
            return .consume(8)
        }
        guard window.count >= 8 else { return .need(8) }
        let length = window.big32(0)
        guard length <= 0x7FFF_FFFF else { return .endless }
        if window.has("fcTL", at: 4) { frames += 1 }
        return window.has("IEND", at: 4) ? .complete(after: length + 12) : .consume(length + 12)
    }
}

/// GIF: blocks up to the trailer. Viewers show files without a trailer, so a file may also end after any block, once it
/// has a complete picture.
struct GIFTruncationCheck: TruncationCheck {
    private enum Place { case screen, blocks, subBlocks }
    private var place = Place.screen
    private var hasPicture = false

    var mayEnd: Bool { place == .blocks && hasPicture }

    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        switch place {
        case .screen:
            guard window.count >= 13 else { return .need(13) }
            place = .blocks
            return .consume(13 + Self.colors(window[10]))
        case .blocks:
            switch window[0] {
            case 0x21:
                place = .subBlocks
                return .consume(2)
            case 0x2C:
                guard window.count >= 10 else { return .need(10) }
                (place, hasPicture) = (.subBlocks, true)
                // The color table is followed by one byte, the minimum code size.
                return .consume(10 + Self.colors(window[9]) + 1)
            case 0x3B: return .complete(after: 1)
            // Some encoders write a superfluous empty block.
            case 0x00: return .consume(1)
            // Viewers stop at an unknown block and show the picture so far.
            default: return .complete(after: 1)
            }
        case .subBlocks:
            if window[0] == 0 { place = .blocks }
            return .consume(Int(window[0]) + 1)
        }
    }

    /// The number of bytes of a color table, from the flags of a screen or picture.
    static func colors(_ flags: UInt8) -> Int { flags & 0x80 != 0 ? 3 << (Int(flags & 7) + 1) : 0 }
}

/// WebP: the image ends where its RIFF header says. The length there excludes the first eight bytes.
struct WebPTruncationCheck: TruncationCheck {
    mutating func step(_ window: Span<UInt8>) -> TruncationStep { .complete(after: 8 + window.little32(4)) }
}
