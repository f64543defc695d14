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
