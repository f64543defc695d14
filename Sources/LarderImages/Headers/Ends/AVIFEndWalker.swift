/// AVIF: boxes at the top, until the picture's description (`meta`) and its data (`mdat`, or `idat` within `meta`) went by; a
/// sequence has its own description (`moov`) too.
struct AVIFEndWalker: EndWalker {
    private enum Place { case brands, top, meta(end: Int) }
    private var place = Place.brands
    private var position = 0
    /// What has to go by yet.
    private var isSequence = false
    private var hasMeta = false
    private var hasMovie = false
    private var hasData = false

    mutating func step(_ window: Span<UInt8>) -> EndStep {
        if case .meta(let end) = place, position >= end { place = .top }
        guard window.count >= 8 else { return .need(8) }
        var (headerLength, size) = (8, window.big32(0))
        if size == 1 {
            guard window.count >= 16 else { return .need(16) }
            guard window.big32(8) <= 0x7FFF_FFFF else { return .endless }
            (headerLength, size) = (16, window.big32(8) << 32 | window.big32(12))
        }
        // 0 means that the box goes on to the end of the file, wherever that is.
        let isOpen = size == 0
        if isOpen { size = Int.max - position }
        guard size >= headerLength, size <= Int.max - position else { return .endless }
        switch place {
        case .brands:
            // The sniffer has seen so many bytes.
            isSequence = window.has("avis", at: 8)
            place = .top
        case .top:
            if window.has("meta", at: 4), size >= headerLength + 4 {
                hasMeta = true
                place = .meta(end: position + size)
                return consume(headerLength + 4)
            }
            if window.has("moov", at: 4) { hasMovie = true }
            if window.has("mdat", at: 4) { hasData = true }
            if isWhole { return .complete(after: isOpen ? headerLength : size) }
        case .meta(let end):
            guard size <= end - position else { return .endless }
            if window.has("idat", at: 4) { hasData = true }
            if isWhole { return .complete(after: end - position) }
        }
        return consume(size)
    }

    private var isWhole: Bool { hasMeta && hasData && (hasMovie || !isSequence) }

    private mutating func consume(_ count: Int) -> EndStep {
        position += count
        return .consume(count)
    }
}
