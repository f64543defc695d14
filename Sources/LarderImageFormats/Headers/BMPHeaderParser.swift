/// Windows and OS/2 bitmaps: a file header of 14 bytes, then a ``BitmapHeader``.
struct BMPHeaderParser: TypedHeaderParser {
    var type: ImageType { .bmp }
    static var lookAhead: Int { 128 }

    /// The length of the file header.
    static let fileHeaderLength = 14

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        let header = try BitmapHeader.read(window, at: Self.fileHeaderLength)
        // Only pixels of at most eight bits are indices in the palette. An offset of 0 means that the pixels follow the
        // palette.
        let (pixels, palette) = (window.little32(10), Self.fileHeaderLength + header.length + 4 * header.colours)
        guard header.bitsPerPixel > 8 || header.colours == 0 || pixels == 0 || palette <= pixels else {
            return damaged("its palette of \(header.colours) colours does not end before the pixels")
        }
        return found(header.width, header.height, frames: 1, hasAlpha: header.hasAlpha)
    }
}
