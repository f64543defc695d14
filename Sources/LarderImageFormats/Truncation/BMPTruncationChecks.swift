/// Bitmaps end after a known number of rows. Run-length compressed bitmaps end after their last row. The file size in
/// the header is wrong in many files and is ignored by decoders. With another compression, such as Huffman or JPEG, the
/// bitmap ends after the number of bytes that its header declares for the pixels.
struct BMPTruncationCheck: TruncationCheck {
    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        let header = try BitmapHeader.read(window, at: BMPHeaderParser.fileHeaderLength)
        let start = max(window.little32(10), BMPHeaderParser.fileHeaderLength + header.length)
        switch (header.compression, header.bitsPerPixel) {
        // With one bit per pixel, 3 is not BI_BITFIELDS but the Huffman compression of OS/2. With 24 bits, 4 is not
        // BI_JPEG but the run-length encoding of OS/2.
        case (0, _), (6, _), (3, 2...):
            let rows = BitmapHeader.bytes(
                rows: header.height, of: header.width, bitsPerPixel: header.bitsPerPixel)
            guard let (end, overflows) = rows?.addingReportingOverflow(start), !overflows else { return .endless }
            return .complete(after: end)
        case (1, 8), (2, 4), (4, 24): return .becomes(RunLengthTruncationCheck(header, start: start))
        default: return .complete(after: start + header.dataLength)
        }
    }
}

/// BI_RLE8, BI_RLE4, and RLE24 of OS/2: pairs of a count and a pixel, and escapes that begin with 0. The image ends with
/// an end marker or with the last pixel of the last row, because some encoders omit the marker.
struct RunLengthTruncationCheck: TruncationCheck {
    private let width: Int
    private let height: Int
    private let bitsPerPixel: Int
    /// The number of bytes to skip before the run-length data; 0 once they have been skipped.
    private var start: Int
    private var x = 0
    private var y = 0

    init(_ header: BitmapHeader, start: Int) {
        (width, height, bitsPerPixel) = (header.width, header.height, header.bitsPerPixel)
        self.start = start
    }

    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        if start > 0 {
            defer { start = 0 }
            return .consume(start)
        }
        guard window.count >= 2 else { return .need(2) }
        let (count, value) = (Int(window[0]), Int(window[1]))
        var length = 2
        switch (count, value) {
        case (0, 0): (x, y) = (0, y + 1)
        case (0, 1): return .complete(after: 2)
        case (0, 2):
            guard window.count >= 4 else { return .need(4) }
            (x, y) = (x + Int(window[2]), y + Int(window[3]))
            length = 4
        case (0, _):
            // Literal pixels, padded to an even number of bytes.
            x += value
            let bytes = (value * bitsPerPixel + 7) / 8
            length += bytes + bytes % 2
        default:
            x += count
            length = 1 + max(1, bitsPerPixel / 8)
        }
        let isWhole = y >= height || (y == height - 1 && x >= width)
        return isWhole ? .complete(after: length) : .consume(length)
    }
}
