/// Windows and OS/2 bitmaps. A file header of 14 bytes is followed by a second header, which begins with its own size.
/// That size identifies the version.
struct BMPHeaderParser: TypedHeaderParser {
    var type: ImageType { .bmp }
    static var lookAhead: Int { 128 }

    /// Valid sizes of the second header: OS/2 1 (12), OS/2 2 short (16) and full (64), Windows 3 (40), Windows 3 with
    /// colour masks (52, 56), version 4 (108), version 5 (124).
    static let knownSizes: Set<Int> = [12, 16, 40, 52, 56, 64, 108, 124]

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 30 else { return .need(30) }
        let size = window.little32(14)
        guard Self.knownSizes.contains(size) else {
            return damaged("its header has an invalid length of \(size) bytes")
        }
        let isOld = size == 12
        guard window.little16(isOld ? 22 : 26) == 1 else { return damaged("its number of planes is not 1") }
        if isOld { return found(window.little16(18), window.little16(20), frames: 1, hasAlpha: false) }
        // Headers of these sizes have an alpha mask. The mask is used only if the compression field selects masks
        // (BI_BITFIELDS, BI_ALPHABITFIELDS).
        let hasMask = [56, 108, 124].contains(size)
        if hasMask, window.count < 70 { return .need(70) }
        let hasAlpha = hasMask && [3, 6].contains(window.little32(30)) && window.little32(66) != 0
        return Self.size(window, at: 14).map { found($0.width, $0.height, frames: 1, hasAlpha: hasAlpha) }
            ?? damaged("its size is negative")
    }

    /// The picture size from the second header, which is at offset `header` and has at least 16 bytes. Nil if the width
    /// is not positive. A negative height means that rows are stored from top to bottom.
    static func size(_ window: Span<UInt8>, at header: Int) -> (width: Int, height: Int)? {
        let width = Int(Int32(truncatingIfNeeded: window.little32(header + 4)))
        let height = Int(Int32(truncatingIfNeeded: window.little32(header + 8)))
        return width > 0 ? (width, abs(height)) : nil
    }
}
