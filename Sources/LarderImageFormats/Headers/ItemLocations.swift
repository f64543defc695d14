/// Where the item data ends, according to an `iloc` box (ISO/IEC 14496-12, section 8.11.3).
struct ItemLocations {
    /// The end of the last extent in the file, as an offset from the start of the file. 0 if no extent is stored there.
    private(set) var fileEnd = 0
    /// The end of the last extent in the `idat` box, as an offset in the box. 0 if no extent is stored there.
    private(set) var dataBoxEnd = 0

    /// Parses the contents of the box; nil if it is damaged.
    init?(_ box: Span<UInt8>) {
        var reader = Reader(box)
        guard let version = reader.number(1), version <= 2, reader.number(3) != nil, let sizes = reader.number(2) else {
            return nil
        }
        let (offsetSize, lengthSize) = (sizes >> 12, sizes >> 8 & 15)
        let (baseSize, indexSize) = (sizes >> 4 & 15, version == 0 ? 0 : sizes & 15)
        guard [offsetSize, lengthSize, baseSize, indexSize].allSatisfy({ [0, 4, 8].contains($0) }),
            let count = reader.number(version < 2 ? 2 : 4)
        else { return nil }
        for _ in 0..<count {
            guard reader.number(version < 2 ? 2 : 4) != nil, let method = version == 0 ? 0 : reader.number(2),
                let source = reader.number(2), let base = reader.number(baseSize), let extents = reader.number(2)
            else { return nil }
            for _ in 0..<extents {
                guard reader.number(indexSize) != nil, let offset = reader.number(offsetSize),
                    let length = reader.number(lengthSize)
                else { return nil }
                // A data reference other than 0 points to another file. A length of 0 means the rest of the file. Such
                // extents are skipped, because they have no known end in this file.
                guard source == 0, length > 0 else { continue }
                let (start, overflows) = base.addingReportingOverflow(offset)
                let (end, carries) = start.addingReportingOverflow(length)
                guard !overflows, !carries else { return nil }
                switch method & 15 {
                case 0: fileEnd = max(fileEnd, end)
                case 1: dataBoxEnd = max(dataBoxEnd, end)
                default: break
                }
            }
        }
    }

    /// Reads big-endian numbers in sequence.
    private struct Reader {
        private let box: [UInt8]
        private var offset = 0

        init(_ box: Span<UInt8>) { self.box = (0..<box.count).map { box[$0] } }

        /// Reads `length` bytes as a number; 0 if `length` is 0. Nil if fewer bytes remain, or if the number is 2^63 or
        /// more.
        mutating func number(_ length: Int) -> Int? {
            guard box.count - offset >= length else { return nil }
            var value: UInt64 = 0
            for index in offset..<offset + length { value = value << 8 | UInt64(box[index]) }
            offset += length
            return Int(exactly: value)
        }
    }
}
