/// AVIF and HEIC: boxes as in ISO/IEC 14496-12. The `meta` box (ISO/IEC 23008-12) names the primary item (`pitm`) and
/// lists properties (`iprp`). Among the properties of the primary item, `ispe` is the size of the picture, and `irot`
/// rotates the picture.
///
/// A clean aperture (`clap`) crops the picture. This parser applies it only to HEIC, because HEIC encoders use it to
/// remove padding. For AVIF the size is that of the decoded picture.
struct HEIFHeaderParser: TypedHeaderParser {
    /// The image type; AVIF until the brands have been read.
    private(set) var type = ImageType.avif
    static var lookAhead: Int { 16 << 20 }

    /// The maximum size of the `iprp` box, which may contain colour profiles. A larger box is rejected as damaged.
    private static let maxPropertyBytes = 1 << 20
    private static let maxBrandBytes = 4096
    private static let sequenceBrands: [StaticString] = ["avis", "hevc", "hevx", "msf1"]

    private enum Place: Equatable { case brands, top, meta(end: Int) }
    private var place = Place.brands
    private var position = 0
    private var mayMove = false
    private var primaryItem: Int?
    /// The contents of the `iprp` box, kept until the primary item is known.
    private var properties: [UInt8]?

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        if case .meta(let end) = place, position >= end {
            return damaged("its meta box has no primary item with properties")
        }
        let box: BoxHeader
        switch BoxHeader.read(window) {
        case .needs(let count): return .need(count)
        case .invalid(let reason): return damaged(reason)
        case .header(let header): box = header
        }
        let headerLength = box.headerLength
        var rest = Int.max - position
        if case .meta(let end) = place { rest = end - position }
        let size = box.length ?? rest
        guard size >= headerLength, size <= Int.max - position else { return damaged("a box has an invalid length") }
        switch place {
        case .brands: return brands(window, size: size)
        case .top:
            guard window.has("meta", at: 4) else { return consume(size) }
            guard size >= headerLength + 4 else { return damaged("its meta box is too short") }
            place = .meta(end: position + size)
            return consume(headerLength + 4)
        case .meta(let end):
            guard size <= end - position else { return damaged("a box is longer than the meta box that contains it") }
            if window.has("pitm", at: 4) { return primary(window, headerLength, size) }
            if window.has("iprp", at: 4) { return keepProperties(window, headerLength, size) }
            return consume(size)
        }
    }

    private mutating func consume(_ count: Int) -> HeaderStep {
        position += count
        return .consume(count)
    }

    /// `ftyp`: the major brand, a version, and the compatible brands.
    private mutating func brands(_ window: Span<UInt8>, size: Int) -> HeaderStep {
        guard size >= 16, size <= Self.maxBrandBytes else { return .refused(.notAnImage("a damaged video (MP4)")) }
        guard window.count >= size else { return .need(size) }
        // The major brand is listed first and so takes precedence.
        let places = [8] + Array(stride(from: 16, through: size - 4, by: 4))
        for place in places where Self.sequenceBrands.contains(where: { window.has($0, at: place) }) {
            mayMove = true
        }
        let types = places.compactMap { place -> ImageType? in
            if window.has("avif", at: place) || window.has("avis", at: place) { return .avif }
            return window.has("hei", at: place) || window.has("hev", at: place) ? .heic : nil
        }
        guard let first = types.first else {
            let isHEIF = places.contains { window.has("mif1", at: $0) || window.has("msf1", at: $0) }
            return .refused(isHEIF ? .unsupported("a HEIF image with another codec") : .notAnImage("a video (MP4)"))
        }
        type = first
        place = .top
        return consume(size)
    }

    private mutating func primary(_ window: Span<UInt8>, _ headerLength: Int, _ size: Int) -> HeaderStep {
        guard size >= headerLength + 6, size <= headerLength + 8 else { return damaged("its pitm box is invalid") }
        guard window.count >= size else { return .need(size) }
        let isShort = window[headerLength] == 0
        guard isShort || size == headerLength + 8 else { return damaged("its pitm box is invalid") }
        primaryItem = isShort ? window.big16(headerLength + 4) : window.big32(headerLength + 4)
        return resolved() ?? consume(size)
    }

    private mutating func keepProperties(_ window: Span<UInt8>, _ headerLength: Int, _ size: Int) -> HeaderStep {
        guard size <= Self.maxPropertyBytes else { return damaged("its properties are too long (\(size) bytes)") }
        guard window.count >= size else { return .need(size) }
        var copy: [UInt8] = []
        copy.reserveCapacity(size - headerLength)
        for index in headerLength..<size { copy.append(window[index]) }
        properties = copy
        return resolved() ?? consume(size)
    }

    /// The header, once both the primary item and the properties have been read; nil before.
    private func resolved() -> HeaderStep? {
        guard let primaryItem, let properties else { return nil }
        guard let item = HEIFProperties(properties.span, of: primaryItem) else {
            return damaged("the properties of its primary item are invalid")
        }
        guard var size = item.size else { return damaged("its primary item has no size") }
        // HEVC encoders pad the picture to whole blocks and crop the padding with `clap`.
        if type == .heic, let crop = item.crop { size = (min(size.width, crop.width), min(size.height, crop.height)) }
        let isTurned = item.quarterTurns % 2 == 1
        return found(
            isTurned ? size.height : size.width, isTurned ? size.width : size.height, frames: mayMove ? nil : 1,
            isAnimated: mayMove, hasAlpha: item.hasAlpha)
    }
}

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

    /// Parses the contents of the box; nil if it is damaged.
    init?(_ box: Span<UInt8>, of item: Int) {
        var properties: [Property] = []
        var indices: [Int] = []
        for place in [Pass.list, .associations] {
            var offset = 0
            while offset < box.count {
                guard let end = Self.end(box, offset, box.count) else { return nil }
                if place == .list, box.has("ipco", at: offset + 4) {
                    guard let list = Self.properties(box, offset + 8, end) else { return nil }
                    properties += list
                }
                if place == .associations, box.has("ipma", at: offset + 4) {
                    guard let found = Self.indices(box, offset + 8, end, item) else { return nil }
                    indices += found
                }
                offset = end
            }
        }
        hasAlpha = properties.contains { if case .alpha = $0 { true } else { false } }
        for index in indices where index > 0 {
            guard index <= properties.count else { return nil }
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

    private enum Pass { case list, associations }

    /// The end of the box at `offset`; nil if the box is invalid or extends beyond `limit`.
    private static func end(_ box: Span<UInt8>, _ offset: Int, _ limit: Int) -> Int? {
        guard limit - offset >= 8 else { return nil }
        let size = box.big32(offset)
        return size >= 8 && size <= limit - offset ? offset + size : nil
    }

    private static func properties(_ box: Span<UInt8>, _ start: Int, _ limit: Int) -> [Property]? {
        var result: [Property] = []
        var offset = start
        while offset < limit {
            guard let end = end(box, offset, limit) else { return nil }
            if box.has("ispe", at: offset + 4) {
                guard end - offset >= 20 else { return nil }
                result.append(.size(width: box.big32(offset + 12), height: box.big32(offset + 16)))
            } else if box.has("irot", at: offset + 4) {
                guard end - offset >= 9 else { return nil }
                result.append(.turn(Int(box[offset + 8] & 3)))
            } else if box.has("clap", at: offset + 4) {
                // The box contains the width, the height and two offsets of the aperture, each as a fraction.
                guard end - offset >= 40, box.big32(offset + 12) > 0, box.big32(offset + 20) > 0 else { return nil }
                result.append(
                    .crop(
                        width: box.big32(offset + 8) / box.big32(offset + 12),
                        height: box.big32(offset + 16) / box.big32(offset + 20)))
            } else if box.has("auxC", at: offset + 4), alphaNames.contains(where: { box.has($0, at: offset + 12) }) {
                result.append(.alpha)
            } else {
                result.append(.other)
            }
            offset = end
        }
        return result
    }

    /// The property indices of an item; nil if the box is damaged. The box's version determines the width of item IDs,
    /// and its flags determine the width of indices.
    private static func indices(_ box: Span<UInt8>, _ start: Int, _ limit: Int, _ item: Int) -> [Int]? {
        guard limit - start >= 8 else { return nil }
        let itemLength = box[start] == 0 ? 2 : 4
        let indexLength = box[start + 3] & 1 == 0 ? 1 : 2
        var result: [Int] = []
        var offset = start + 8
        for _ in 0..<box.big32(start + 4) {
            guard limit - offset >= itemLength + 1 else { return nil }
            let isItem = (itemLength == 2 ? box.big16(offset) : box.big32(offset)) == item
            let count = Int(box[offset + itemLength])
            offset += itemLength + 1
            guard limit - offset >= count * indexLength else { return nil }
            if isItem {
                for number in 0..<count {
                    let place = offset + number * indexLength
                    // The highest bit marks the property as essential.
                    result.append(indexLength == 1 ? Int(box[place] & 0x7F) : box.big16(place) & 0x7FFF)
                }
            }
            offset += count * indexLength
        }
        return result
    }
}
