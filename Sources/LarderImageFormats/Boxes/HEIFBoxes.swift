/// The properties of one item in an `iprp` box (ISO/IEC 23008-12, section 9.3). The `ipco` box lists all properties.
/// The `ipma` box associates items with properties by an index that counts from 1.
struct HEIFProperties {
    private(set) var size: (width: Int, height: Int)?
    private(set) var quarterTurns = 0
    /// The size of the clean aperture (`clap`).
    private(set) var crop: (width: Int, height: Int)?
    /// Whether the file contains an auxiliary alpha image.
    private(set) var hasAlpha = false

    private enum Property {
        case size(width: Int, height: Int)
        case turn(Int)
        case crop(width: Int, height: Int)
        case alpha
        case other
    }

    /// Parses the contents of the box.
    init(_ box: inout ByteReader, of item: Int) throws(ByteReader.Damage) {
        var properties: [Property] = []
        var indices: [Int] = []
        try box.boxes { (type, box) throws(ByteReader.Damage) in
            if type == "ipco" {
                try box.boxes { (type, box) throws(ByteReader.Damage) in
                    properties.append(try Self.property(type, &box))
                }
            } else if type == "ipma" {
                indices += try Self.indices(&box, item)
            }
        }
        hasAlpha = properties.contains { if case .alpha = $0 { true } else { false } }
        for index in indices where index > 0 {
            guard index <= properties.count else { throw ByteReader.Damage() }
            switch properties[index - 1] {
            case .size(let width, let height): size = (width, height)
            case .turn(let quarters): quarterTurns = quarters
            case .crop(let width, let height): crop = (width, height)
            case .alpha, .other: break
            }
        }
    }

    /// The types of auxiliary alpha images in AVIF and in HEIC.
    private static let alphaNames: [StaticString] = [
        "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1",
    ]

    private static func property(_ type: BoxType, _ box: inout ByteReader) throws(ByteReader.Damage) -> Property {
        switch type {
        case "ispe":
            try box.skip(4)
            return .size(width: try box.number(4), height: try box.number(4))
        case "irot": return .turn(try box.number(1) & 3)
        case "clap":
            // The box contains the width, the height and two offsets of the aperture, each as a fraction.
            let width = try quotient(&box)
            return .crop(width: width, height: try quotient(&box))
        case "auxC" where box.remaining > 4:
            try box.skip(4)
            return alphaNames.contains(where: box.starts) ? .alpha : .other
        default: return .other
        }
    }

    private static func quotient(_ box: inout ByteReader) throws(ByteReader.Damage) -> Int {
        let numerator = try box.number(4)
        let denominator = try box.number(4)
        guard denominator > 0 else { throw ByteReader.Damage() }
        return numerator / denominator
    }

    /// The property indices of an item. The box's version determines the width of item IDs, and its flags determine the
    /// width of indices.
    private static func indices(_ box: inout ByteReader, _ item: Int) throws(ByteReader.Damage) -> [Int] {
        let itemLength = try box.number(1) == 0 ? 2 : 4
        let indexLength = try box.number(3) & 1 == 0 ? 1 : 2
        var result: [Int] = []
        for _ in 0..<(try box.number(4)) {
            let isItem = try box.number(itemLength) == item
            let count = try box.number(1)
            guard isItem else {
                try box.skip(count * indexLength)
                continue
            }
            // The highest bit marks the property as essential.
            let mask = indexLength == 1 ? 0x7F : 0x7FFF
            for _ in 0..<count { result.append(try box.number(indexLength) & mask) }
        }
        return result
    }
}

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

/// The start of a `mini` box (ISO/IEC 23008-12, MinimizedImageBox), which has all properties of an image and its data.
struct MinimizedImage {
    /// The number of bytes after the header of the box that ``read(_:)`` needs.
    static let length = 6

    /// The size before the orientation is applied.
    let width: Int
    let height: Int
    /// 1 to 8, numbered as in EXIF. Decoders rotate the image themselves.
    let orientation: Int
    let hasAlpha: Bool

    /// Reads the fields; nil if the version is unknown. The span has at least ``length`` bytes.
    static func read(_ contents: Span<UInt8>) -> MinimizedImage? {
        let bits = contents.big16(0) << 32 | contents.big32(2)
        guard bits >> 46 == 0 else { return nil }
        let isLarge = bits >> 31 & 1 == 1
        return MinimizedImage(
            width: 1 + (isLarge ? bits >> 16 & 0x7FFF : bits >> 24 & 0x7F),
            height: 1 + (isLarge ? bits >> 1 & 0x7FFF : bits >> 17 & 0x7F), orientation: 1 + (bits >> 32 & 7),
            hasAlpha: bits >> 42 & 1 == 1)
    }
}

/// The picture track of an image sequence, according to its `moov` box (ISO/IEC 14496-12, section 8; ISO/IEC 23008-12,
/// section 7).
struct PictureTrack {
    /// The size of the first track with pictures; nil if there is none.
    private(set) var size: (width: Int, height: Int)?
    /// Whether the sequence has a track with alpha values.
    private(set) var hasAlpha = false

    /// Parses the contents of the box.
    init(_ movie: inout ByteReader) throws(ByteReader.Damage) {
        try movie.boxes { (type, box) throws(ByteReader.Damage) in
            guard type == "trak" else { return }
            var track = Track()
            try track.read(&box)
            switch track.handler {
            case "pict", "vide": size = size ?? track.size
            case "auxv": hasAlpha = true
            default: break
            }
        }
    }
}

/// The properties of a track: its kind, and the size of its first kind of sample.
private struct Track {
    private(set) var handler: BoxType?
    private(set) var size: (width: Int, height: Int)?

    /// The types of the boxes in each other that lead to the properties.
    private static let path: [BoxType] = ["mdia", "minf", "stbl", "stsd"]

    /// Parses the contents of the box at a depth below `trak`.
    mutating func read(_ boxes: inout ByteReader, depth: Int = 0) throws(ByteReader.Damage) {
        try boxes.boxes { (type, box) throws(ByteReader.Damage) in
            if type == "hdlr", depth == 1 {
                try box.skip(8)
                handler = try box.boxType()
            } else if type == Self.path[depth] {
                if depth + 1 < Self.path.count { try read(&box, depth: depth + 1) } else { try readSize(&box) }
            }
        }
    }

    /// Parses the contents of `stsd`: a version, flags, a count, then boxes that begin with 24 other bytes.
    private mutating func readSize(_ descriptions: inout ByteReader) throws(ByteReader.Damage) {
        try descriptions.skip(8)
        try descriptions.boxes { (_, entry) throws(ByteReader.Damage) in
            guard size == nil else { return }
            try entry.skip(24)
            let width = try entry.number(2)
            size = (width, try entry.number(2))
        }
    }
}
