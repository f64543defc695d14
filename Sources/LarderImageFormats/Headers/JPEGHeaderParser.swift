/// JPEG (ITU-T T.81, annex B): segments up to the first frame header. Thumbnails are inside application segments, which
/// are skipped as a whole, so a thumbnail is never mistaken for the picture.
struct JPEGHeaderParser: TypedHeaderParser {
    var type: ImageType { .jpeg }
    static var lookAhead: Int { 16 << 20 }

    private var orientation: Int?
    private var isStarted = false

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        guard isStarted else {
            isStarted = true
            return .consume(2)  // SOI, which the sniffer has checked
        }
        // Decoders skip fill bytes (B.1.1.2) and stray bytes between segments.
        guard window[0] == 0xFF else { return .consume(1) }
        guard window.count >= 2 else { return .need(2) }
        switch window[1] {
        case 0xFF: return .consume(1)
        case 0x00, 0x01, 0xD0...0xD8: return .consume(2)
        case 0xD9: return damaged("it ends before its image data")
        case 0xDA: return damaged("its scan comes before its frame header")
        case 0xC0...0xCF where ![0xC4, 0xC8, 0xCC].contains(window[1]): return frame(window)
        case 0xE1: return application(window)
        default:
            guard window.count >= 4 else { return .need(4) }
            return passing(window)
        }
    }

    private func passing(_ window: Span<UInt8>) -> HeaderStep {
        Self.segmentLength(window).map { .consume($0) }
            ?? damaged("a segment has the invalid length \(window.big16(2))")
    }

    /// The number of bytes of the segment at the start of the window, which must have at least four bytes. Nil if the
    /// length in the segment is invalid.
    static func segmentLength(_ window: Span<UInt8>) -> Int? {
        // This length includes its own two bytes but not the marker.
        let length = window.big16(2)
        if length >= 2 { return length + 2 }
        // Decoders read comments and application data with a smaller length as empty.
        let isIgnored = window[1] == 0xFE || (0xE0...0xEF).contains(window[1])
        return isIgnored ? 4 : nil
    }

    /// Reads the size from a frame header (B.2.2): length, precision, height, width, components.
    private func frame(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 10 else { return .need(10) }
        let (height, width, components) = (window.big16(5), window.big16(7), Int(window[9]))
        guard window.big16(2) == 8 + 3 * components, components > 0 else {
            return damaged("its frame header is invalid")
        }
        // B.2.5 allows the height to be given after the first scan, but current encoders do not use this.
        guard height > 0 else { return damaged("its frame header has no height") }
        return found(
            width, height, isTurned: (orientation ?? 1) >= 5, frames: 1,
            orientation: orientation == 1 ? nil : orientation, hasAlpha: false)
    }

    /// Reads an APP1 segment, which contains EXIF, XMP or other data. The first EXIF block counts.
    private mutating func application(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 4 else { return .need(4) }
        let length = window.big16(2)
        guard orientation == nil, length >= 8 else { return passing(window) }
        guard window.count >= 10 else { return .need(10) }
        guard window.has("Exif\0", at: 4) else { return passing(window) }
        guard window.count >= length + 2 else { return .need(length + 2) }
        orientation = EXIFOrientation.read(window.extracting(10..<length + 2).copy)
        return passing(window)
    }
}

/// Reads the orientation from an EXIF block, which is a small TIFF file (CIPA DC-008, section 4.5).
enum EXIFOrientation {
    /// Returns 1 to 8; nil if the block has no orientation or is damaged, in which case the picture is shown unrotated.
    static func read(_ tiff: [UInt8]) -> Int? {
        ByteReader.parse(tiff) { (tiff) throws(ByteReader.Damage) in try orientation(&tiff) } ?? nil
    }

    private static func orientation(_ tiff: inout ByteReader) throws(ByteReader.Damage) -> Int? {
        switch try tiff.number(2) {
        case 0x4D4D: break
        case 0x4949: tiff.isLittleEndian = true
        default: return nil
        }
        guard try tiff.number(2) == 42 else { return nil }
        // The offset counts from the start of the block, of which eight bytes have been read.
        try tiff.skip(try tiff.number(4) - 8)
        for _ in 0..<(try tiff.number(2)) {
            let tag = try tiff.number(2)
            let type = try tiff.number(2)
            let count = try tiff.number(4)
            let value = try tiff.number(2)
            try tiff.skip(2)
            // The entry of the orientation: type SHORT, one value.
            if tag == 0x0112, type == 3, count == 1 { return (1...8).contains(value) ? value : nil }
        }
        return nil
    }
}
