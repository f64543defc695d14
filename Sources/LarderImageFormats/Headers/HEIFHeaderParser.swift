/// AVIF and HEIC: boxes as in ISO/IEC 14496-12. The `meta` box (ISO/IEC 23008-12) names the primary item (`pitm`) and
/// lists properties (`iprp`). Among the properties of the primary item, `ispe` is the size of the picture, and `irot`
/// rotates the picture.
///
/// A sequence may have no primary item. Its size is then that of its picture track (`moov`). An image with the brand
/// `mif3` may have a `mini` box instead of `meta`.
///
/// A clean aperture (`clap`) crops the picture. This parser applies it only to HEIC, because HEIC encoders use it to
/// remove padding. For AVIF the size is that of the decoded picture.
struct HEIFHeaderParser: TypedHeaderParser {
    /// The image type; AVIF until the brands have been read.
    private(set) var type = ImageType.avif
    static var lookAhead: Int { 16 << 20 }

    /// The maximum size of the `iprp` box, which may contain color profiles, and of the `moov` box, which lists the
    /// frames. A larger box is rejected as damaged. Such a box is parsed in one step, which cannot be cancelled.
    private static let maxPropertyBytes = 512 << 10
    private static let maxBrandBytes = 4096
    static let sequenceBrands: [StaticString] = ["avis", "hevc", "hevx", "msf1"]

    private enum Place: Equatable { case brands, top, meta(end: Int) }
    private var place = Place.brands
    private var position = 0
    private var mayMove = false
    private var isMinimized = false
    private var primaryItem: Int?
    /// The contents of the `iprp` box, kept until the primary item is known.
    private var properties: [UInt8]?

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        if case .meta(let end) = place, position >= end {
            place = .top
            guard mayMove else { return damaged("its meta box has no primary item with properties") }
        }
        let box = try BoxHeader.read(window)
        let headerLength = box.headerLength
        var rest = Int.max - position
        if case .meta(let end) = place { rest = end - position }
        let size = box.length ?? rest
        guard size >= headerLength, size <= Int.max - position else { return damaged("a box has an invalid length") }
        switch place {
        case .brands: return brands(window, size: size)
        case .top:
            if isMinimized, window.has("mini", at: 4) { return minimized(window, headerLength, size) }
            if mayMove, window.has("moov", at: 4) { return movie(window, headerLength, size) }
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
        guard size >= 16, size <= Self.maxBrandBytes else { return .rejected(.notAnImage("a damaged video (MP4)")) }
        guard window.count >= size else { return .need(size) }
        isMinimized = window.has("mif3", at: 8)
        // The major brand is listed first and so takes precedence. After `mif3`, the codec follows instead of a version.
        let places = (isMinimized ? [8, 12] : [8]) + Array(stride(from: 16, through: size - 4, by: 4))
        for place in places where Self.sequenceBrands.contains(where: { window.has($0, at: place) }) {
            mayMove = true
        }
        let types = places.compactMap { place -> ImageType? in
            if window.has("avif", at: place) || window.has("avis", at: place) { return .avif }
            return window.has("hei", at: place) || window.has("hev", at: place) ? .heic : nil
        }
        guard let first = types.first else {
            let isHEIF =
                isMinimized || places.contains { window.has("mif1", at: $0) || window.has("msf1", at: $0) }
            return .rejected(isHEIF ? .unsupported("a HEIF image with another codec") : .notAnImage("a video (MP4)"))
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
        properties = window.extracting(headerLength..<size).copy
        return resolved() ?? consume(size)
    }

    private func movie(_ window: Span<UInt8>, _ headerLength: Int, _ size: Int) -> HeaderStep {
        guard size <= Self.maxPropertyBytes else { return damaged("its moov box is too long (\(size) bytes)") }
        guard window.count >= size else { return .need(size) }
        let track = ByteReader.parse(window.extracting(headerLength..<size).copy) {
            (movie) throws(ByteReader.Damage) in try PictureTrack(&movie)
        }
        guard let track, let picture = track.size else { return damaged("it has no valid picture track") }
        return found(picture.width, picture.height, frames: nil, isAnimated: true, hasAlpha: track.hasAlpha)
    }

    private func minimized(_ window: Span<UInt8>, _ headerLength: Int, _ size: Int) -> HeaderStep {
        let end = headerLength + MinimizedImage.length
        guard size >= end else { return damaged("its mini box is too short") }
        guard window.count >= end else { return .need(end) }
        guard let image = MinimizedImage.read(window.extracting(headerLength...)) else {
            return damaged("its mini box has an unknown version")
        }
        return found(
            image.width, image.height, isTurned: image.orientation >= 5, frames: 1,
            hasAlpha: image.hasAlpha)
    }

    /// The header, once both the primary item and the properties have been read; nil before.
    private func resolved() -> HeaderStep? {
        guard let primaryItem, let properties else { return nil }
        let parsed = ByteReader.parse(properties) { (box) throws(ByteReader.Damage) in
            try HEIFProperties(&box, of: primaryItem)
        }
        guard let item = parsed else {
            return damaged("the properties of its primary item are invalid")
        }
        guard var size = item.size else { return damaged("its primary item has no size") }
        // HEVC encoders pad the picture to whole blocks and crop the padding with `clap`.
        if type == .heic, let crop = item.crop { size = (min(size.width, crop.width), min(size.height, crop.height)) }
        return found(
            size.width, size.height, isTurned: item.quarterTurns % 2 == 1, frames: mayMove ? nil : 1,
            isAnimated: mayMove, hasAlpha: item.hasAlpha)
    }
}
