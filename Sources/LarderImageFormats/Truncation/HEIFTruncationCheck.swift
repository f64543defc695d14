/// AVIF and HEIC: top-level boxes, up to the end of the picture's description (`meta`) and of its data (`mdat`, or
/// `idat` inside `meta`). A sequence has another description (`moov`) and may have no `meta`. A `mini` box has everything
/// that the image needs. A box that extends to the end of the
/// file counts as complete at the end of the last extent in the `iloc` box.
struct HEIFTruncationCheck: TruncationCheck {
    private enum Place { case brands, top, meta(end: Int) }
    private var place = Place.brands
    private var position = 0
    /// Whether the `meta` box extends to the end of the file.
    private var isMetaOpen = false
    private var locations: ItemLocations?
    private var isSequence = false
    private var isMinimized = false
    // Whether the boxes `meta`, `moov`, `mdat`, `idat`, `pitm` and `iprp` have been seen.
    private var hasMeta = false
    private var hasMovie = false
    private var hasMediaData = false
    private var hasDataBox = false
    private var hasPrimaryItem = false
    private var hasProperties = false

    /// The maximum size of an `iloc` box that is parsed; larger ones are skipped.
    private static let maxLocationBytes = 1 << 20

    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        if case .meta(let end) = place, position >= end { place = .top }
        if case .meta(let end) = place, end - position < 8 { return passing(end - position, isEndOfMeta: true) }
        let box = try BoxHeader.read(window)
        let headerLength = box.headerLength
        let isOpen = box.length == nil
        var rest = Int.max - position
        if case .meta(let end) = place { rest = end - position }
        let size = box.length ?? rest
        guard size >= headerLength, size <= Int.max - position else { return .endless }
        switch place {
        case .brands:
            // The window has at least the 12 bytes that are read here, because the sniffer has waited for a whole
            // signature.
            isSequence = HEIFHeaderParser.sequenceBrands.contains { window.has($0, at: 8) }
            isMinimized = window.has("mif3", at: 8)
            place = .top
            return consume(size)
        case .top:
            if isMinimized, window.has("mini", at: 4) { return .complete(after: isOpen ? headerLength : size) }
            if window.has("meta", at: 4), size >= headerLength + 4 {
                hasMeta = true
                isMetaOpen = isOpen
                place = .meta(end: position + size)
                return consume(headerLength + 4)
            }
            if window.has("moov", at: 4) { hasMovie = true }
            if window.has("mdat", at: 4) { hasMediaData = true }
            guard isWhole else { return consume(size) }
            return complete(after: isOpen ? headerLength : size)
        case .meta(let end):
            guard size <= end - position else { return .endless }
            if window.has("iloc", at: 4), size <= Self.maxLocationBytes {
                guard window.count >= size else { return .need(size) }
                locations = ByteReader.parse(window.extracting(headerLength..<size).copy) {
                    (box) throws(ByteReader.Damage) in try ItemLocations(&box)
                }
            }
            if window.has("pitm", at: 4) { hasPrimaryItem = true }
            if window.has("iprp", at: 4) { hasProperties = true }
            if window.has("idat", at: 4) {
                hasDataBox = true
                // An `idat` box without a length extends to the end of the file, so the image ends with the last of its
                // extents that is stored in this box.
                if isOpen { return complete(after: headerLength + (locations?.dataBoxEnd ?? 0)) }
            }
            return passing(size, isEndOfMeta: size == end - position)
        }
    }

    /// Skips a box inside `meta`. If this box is the last part that the image needs, the image ends with it.
    private mutating func passing(_ size: Int, isEndOfMeta: Bool) -> TruncationStep {
        let isDescribed = isEndOfMeta || (isMetaOpen && hasPrimaryItem && hasProperties && locations != nil)
        return isDescribed && isWhole ? complete(after: size) : consume(size)
    }

    private var isWhole: Bool {
        if isSequence { return hasMovie && hasMediaData }
        let needsDataBox = (locations?.dataBoxEnd ?? 0) > 0
        return hasMeta && (hasMediaData || hasDataBox) && (hasDataBox || !needsDataBox)
    }

    /// The image ends after `count` bytes, or at the end of the last extent if that is later.
    private func complete(after count: Int) -> TruncationStep {
        .complete(after: max(count, (locations?.fileEnd ?? 0) - position))
    }

    private mutating func consume(_ count: Int) -> TruncationStep {
        position += count
        return .consume(count)
    }
}
