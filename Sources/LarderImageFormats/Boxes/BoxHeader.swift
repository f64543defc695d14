/// The length fields of a box header (ISO/IEC 14496-12, section 4.2). The type of the box, the four bytes at offset 4,
/// is not included; callers read it from the window.
struct BoxHeader {
    /// The length of the header, which is part of the box.
    let headerLength: Int
    /// The length of the box, at least ``headerLength``. Nil if the box extends to the end of its container.
    let length: Int?

    static func read(_ window: Span<UInt8>) throws(Unreadable) -> BoxHeader {
        guard window.count >= 8 else { throw .needs(8) }
        let length = window.big32(0)
        if length == 0 { return BoxHeader(headerLength: 8, length: nil) }
        guard length == 1 else {
            guard length >= 8 else { throw .damaged("a box has an invalid length") }
            return BoxHeader(headerLength: 8, length: length)
        }
        // A 64-bit length follows the type.
        guard window.count >= 16 else { throw .needs(16) }
        guard window.big32(8) <= 0x7FFF_FFFF else { throw .damaged("a box is too long") }
        let longLength = window.big32(8) << 32 | window.big32(12)
        guard longLength >= 16 else { throw .damaged("a box has an invalid length") }
        return BoxHeader(headerLength: 16, length: longLength)
    }
}
