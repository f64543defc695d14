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
        let (pixels, palette) = (window.little32(10), Self.fileHeaderLength + header.length + 4 * header.colors)
        guard header.bitsPerPixel > 8 || header.colors == 0 || pixels == 0 || palette <= pixels else {
            return damaged("its palette of \(header.colors) colors does not end before the pixels")
        }
        return found(header.width, header.height, frames: 1, hasAlpha: header.hasAlpha)
    }
}

/// The header of a Windows or OS/2 bitmap, which begins with its own length. The length identifies the version. In a
/// bitmap file, it follows the file header of 14 bytes; in an icon, it is the start of a picture.
struct BitmapHeader {
    /// Valid lengths: OS/2 1 (12), OS/2 2 short (16) and full (64), Windows 3 (40), Windows 3 with color masks
    /// (52, 56), version 4 (108), version 5 (124).
    static let knownLengths: Set<Int> = [12, 16, 40, 52, 56, 64, 108, 124]

    let length: Int
    let width: Int
    /// The number of rows. In an icon, they include the mask, which is as high as the picture.
    let height: Int
    let bitsPerPixel: Int
    /// 0 if the header has no such field.
    private(set) var compression = 0
    /// The declared number of bytes of the pixels; 0 if the header does not declare it.
    private(set) var dataLength = 0
    /// The declared number of colors in the palette; 0 for the maximum.
    private(set) var colors = 0
    /// Whether the pixels have alpha values. The mask in the header is used only if the compression field selects masks
    /// (BI_BITFIELDS, BI_ALPHABITFIELDS).
    private(set) var hasAlpha = false

    /// Reads the header at an offset in the window, which must not be beyond the window's end.
    static func read(_ window: Span<UInt8>, at start: Int = 0) throws(Unreadable) -> BitmapHeader {
        let window = window.extracting(start...)
        guard window.count >= 4 else { throw .needs(start + 4) }
        let length = window.little32(0)
        guard knownLengths.contains(length) else {
            throw .damaged("its header has an invalid length of \(length) bytes")
        }
        let needed = min(length, length >= 56 ? 56 : 40)
        guard window.count >= needed else { throw .needs(start + needed) }
        let header = BitmapHeader(window, length)
        guard header.width > 0 else { throw .damaged("its width is \(header.width)") }
        return header
    }

    /// The number of planes is not read, because decoders ignore it.
    private init(_ window: Span<UInt8>, _ length: Int) {
        self.length = length
        guard length > 12 else {
            (width, height, bitsPerPixel) = (window.little16(4), window.little16(6), window.little16(10))
            return
        }
        width = Int(Int32(truncatingIfNeeded: window.little32(4)))
        // A negative height means that rows are stored from top to bottom.
        height = abs(Int(Int32(truncatingIfNeeded: window.little32(8))))
        bitsPerPixel = window.little16(14)
        guard length > 16 else { return }
        (compression, dataLength, colors) = (window.little32(16), window.little32(20), window.little32(32))
        hasAlpha = [56, 108, 124].contains(length) && [3, 6].contains(compression) && window.little32(52) != 0
    }

    /// The number of bytes of uncompressed rows, each of which is padded to four bytes. Nil if it is 2^63 or more.
    static func bytes(rows: Int, of width: Int, bitsPerPixel: Int) -> Int? {
        // The width has at most 31 bits and the pixel at most 16.
        let row = (width * bitsPerPixel + 31) / 32 * 4
        let (bytes, overflows) = row.multipliedReportingOverflow(by: rows)
        return overflows ? nil : bytes
    }
}
