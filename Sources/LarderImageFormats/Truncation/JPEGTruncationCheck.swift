import Glibc

/// JPEG: from marker to marker up to EOI. Segments are passed over by their lengths, so that the end of a thumbnail in one is
/// not taken for the picture's; in a scan a marker is what is not followed by 0 (B.1.1.5), and stray bytes anywhere are
/// passed over in the same way.
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
            let length = window.big16(2)
            return length >= 2 ? .consume(length + 2) : .endless
        }
    }
}

extension Span where Element == UInt8 {
    /// Where a byte is for the first time.
    func first(_ byte: UInt8) -> Int? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let place = memchr(start, CInt(byte), bytes.count) else { return nil }
            return UnsafeRawPointer(place) - start
        }
    }
}
