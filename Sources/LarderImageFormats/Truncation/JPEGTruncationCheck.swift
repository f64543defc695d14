import Glibc

/// JPEG: markers up to EOI. Segments are skipped by their lengths, so that the EOI of an embedded thumbnail is ignored.
/// In a scan, 0xFF followed by 0 is data and not a marker (B.1.1.5). Bytes before the next 0xFF are skipped, in scans
/// as well as between segments.
struct JPEGTruncationCheck: TruncationCheck {
    private var isStarted = false

    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        guard isStarted else {
            isStarted = true
            return .consume(2)
        }
        guard window[0] == 0xFF else { return .consume(window.first(0xFF) ?? window.count) }
        guard window.count >= 2 else { return .need(2) }
        switch window[1] {
        case 0xFF: return .consume(1)
        case 0x00, 0x01, 0xD0...0xD8: return .consume(2)
        case 0xD9: return .complete(after: 2)
        default:
            guard window.count >= 4 else { return .need(4) }
            return JPEGHeaderParser.segmentLength(window).map { .consume($0) } ?? .endless
        }
    }
}

extension Span where Element == UInt8 {
    /// The index of the first occurrence of a byte; nil if the span does not contain it.
    func first(_ byte: UInt8) -> Int? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let place = memchr(start, CInt(byte), bytes.count) else { return nil }
            return UnsafeRawPointer(place) - start
        }
    }
}

/// JPEG XL in a container: up to the end of the box with the complete codestream (`jxlc`) or with its last part
/// (`jxlp`).
///
/// A codestream without a container does not record its length, so only a decoder can find its end. It counts as
/// complete after its first bytes, and so does a `jxlc` box that extends to the end of the file.
struct JPEGXLTruncationCheck: TruncationCheck {
    private var isStarted = false

    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        guard isStarted else {
            isStarted = true
            return window[0] == 0xFF ? .complete(after: FormatSniffer.signatureLength) : .consume(12)
        }
        let box = try BoxHeader.read(window)
        let headerLength = box.headerLength
        if window.has("jxlc", at: 4) { return .complete(after: box.length ?? headerLength) }
        if window.has("jxlp", at: 4) {
            guard window.count >= headerLength + 4 else { return .need(headerLength + 4) }
            // The highest bit of the part number marks the last part.
            if window[headerLength] & 0x80 != 0 { return .complete(after: box.length ?? headerLength + 4) }
        }
        return box.length.map { .consume($0) } ?? .endless
    }
}
