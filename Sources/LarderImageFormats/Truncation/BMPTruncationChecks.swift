/// Bitmaps end after a known number of rows, each padded to four bytes. Run-length compressed bitmaps end after their
/// last row. The file size in the header is wrong in many files and is ignored by decoders, so the check uses that size
/// only for bitmaps with another compression.
struct BMPTruncationCheck: TruncationCheck {
    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        guard window.count >= 34 else { return .need(34) }
        let (header, start) = (window.little32(14), window.little32(10))
        let isOld = header == 12
        // The short OS/2 2 header has no compression field.
        let compression = header <= 16 ? 0 : window.little32(30)
        let bits = window.little16(isOld ? 24 : 28)
        let size =
            isOld
            ? (window.little16(18), window.little16(20))
            : BMPHeaderParser.size(window, at: 14).map { ($0.width, $0.height) }
        guard let (width, height) = size else { return .endless }
        switch compression {
        // Uncompressed: BI_RGB, BI_BITFIELDS, BI_ALPHABITFIELDS.
        case 0, 3, 6: break
        case 1 where bits == 8, 2 where bits == 4:
            return .becomes(RunLengthTruncationCheck(start: start, width: width, height: height, isFourBits: bits == 4))
        default: return .complete(after: max(window.little32(2), start))
        }
        // A row has at most 2^31 pixels of 2^16 bits, so only the product of the row size and the number of rows (at
        // most 2^31) can overflow.
        let row = (width * bits + 31) / 32 * 4
        let (rows, overflows) = row.multipliedReportingOverflow(by: height)
        let (end, carries) = rows.addingReportingOverflow(start)
        return overflows || carries ? .endless : .complete(after: end)
    }
}

/// BI_RLE8 and BI_RLE4: pairs of a count and a value, and escapes that begin with 0. The image ends with an end marker
/// or with the last pixel of the last row, because some encoders omit the marker.
struct RunLengthTruncationCheck: TruncationCheck {
    private let width: Int
    private let height: Int
    private let isFourBits: Bool
    /// The number of bytes to skip before the run-length data; 0 once they have been skipped.
    private var start: Int
    private var x = 0
    private var y = 0

    init(start: Int, width: Int, height: Int, isFourBits: Bool) {
        (self.width, self.height, self.isFourBits) = (width, height, isFourBits)
        self.start = max(start, 1)
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
            let bytes = isFourBits ? (value + 1) / 2 : value
            length += bytes + bytes % 2
        default: x += count
        }
        let isWhole = y >= height || (y == height - 1 && x >= width)
        return isWhole ? .complete(after: length) : .consume(length)
    }
}
