/// Windows and OS/2 bitmaps: a file header of 14 bytes, then a header that begins with its own size, by which its
/// versions are told apart.
struct BMPHeaderParser: TypedHeaderParser {
    var type: ImageType { .bmp }
    static var lookAhead: Int { 128 }

    /// The sizes of the second header: OS/2 1 (12), OS/2 2 short (16) and whole (64), Windows 3 (40), with masks (52,
    /// 56), version 4 (108), version 5 (124).
    static let knownSizes: Set<Int> = [12, 16, 40, 52, 56, 64, 108, 124]

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 30 else { return .need(30) }
        let size = window.little32(14)
        guard Self.knownSizes.contains(size) else { return damaged("its header is \(size) bytes long") }
        let isOld = size == 12
        guard window.little16(isOld ? 22 : 26) == 1 else { return damaged("it does not have one plane") }
        if isOld { return found(window.little16(18), window.little16(20), frames: 1, hasAlpha: false) }
        // A mask for alpha, which counts only if masks are used (BI_BITFIELDS, BI_ALPHABITFIELDS).
        let hasMask = [56, 108, 124].contains(size)
        if hasMask, window.count < 70 { return .need(70) }
        let hasAlpha = hasMask && [3, 6].contains(window.little32(30)) && window.little32(66) != 0
        return Self.size(window, at: 14).map { found($0.width, $0.height, frames: 1, hasAlpha: hasAlpha) }
            ?? damaged("its size is negative")
    }

    /// The size in a header of 16 bytes or more; a negative height means that the rows run downwards.
    static func size(_ window: Span<UInt8>, at header: Int) -> (width: Int, height: Int)? {
        let width = Int(Int32(truncatingIfNeeded: window.little32(header + 4)))
        let height = Int(Int32(truncatingIfNeeded: window.little32(header + 8)))
        return width > 0 ? (width, abs(height)) : nil
    }
}
