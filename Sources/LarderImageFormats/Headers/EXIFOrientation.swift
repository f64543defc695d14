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
