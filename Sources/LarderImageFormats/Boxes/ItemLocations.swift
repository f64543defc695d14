/// Where the item data ends, according to an `iloc` box (ISO/IEC 14496-12, section 8.11.3).
struct ItemLocations {
    /// The end of the last extent in the file, as an offset from the start of the file. 0 if no extent is stored there.
    private(set) var fileEnd = 0
    /// The end of the last extent in the `idat` box, as an offset in the box. 0 if no extent is stored there.
    private(set) var dataBoxEnd = 0

    /// Parses the contents of the box.
    init(_ box: inout ByteReader) throws(ByteReader.Damage) {
        let version = try box.number(1)
        guard version <= 2 else { throw ByteReader.Damage() }
        try box.skip(3)
        let sizes = try box.number(2)
        let (offsetSize, lengthSize) = (sizes >> 12, sizes >> 8 & 15)
        let (baseSize, indexSize) = (sizes >> 4 & 15, version == 0 ? 0 : sizes & 15)
        guard [offsetSize, lengthSize, baseSize, indexSize].allSatisfy({ [0, 4, 8].contains($0) }) else {
            throw ByteReader.Damage()
        }
        for _ in 0..<(try box.number(version < 2 ? 2 : 4)) {
            try box.skip(version < 2 ? 2 : 4)
            let method = version == 0 ? 0 : try box.number(2) & 15
            let source = try box.number(2)
            let base = try box.number(baseSize)
            for _ in 0..<(try box.number(2)) {
                try box.skip(indexSize)
                let offset = try box.number(offsetSize)
                let length = try box.number(lengthSize)
                // A data reference other than 0 points to another file. A length of 0 means the rest of the file. Such
                // extents are skipped, because they have no known end in this file.
                guard source == 0, length > 0 else { continue }
                let (start, overflows) = base.addingReportingOverflow(offset)
                let (end, carries) = start.addingReportingOverflow(length)
                guard !overflows, !carries else { throw ByteReader.Damage() }
                switch method {
                case 0: fileEnd = max(fileEnd, end)
                case 1: dataBoxEnd = max(dataBoxEnd, end)
                default: break
                }
            }
        }
    }
}
