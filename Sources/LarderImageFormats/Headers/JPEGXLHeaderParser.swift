/// JPEG XL (ISO/IEC 18181-1, annex D): a codestream, either on its own or in a container of boxes (ISO/IEC 18181-2). In
/// a container the codestream is in one `jxlc` box or starts in the first `jxlp` box.
struct JPEGXLHeaderParser: TypedHeaderParser {
    static var lookAhead: Int { 16 << 20 }
    var type: ImageType { .jxl }

    private enum Place { case start, boxes, codestream }
    private var place = Place.start

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        switch place {
        case .start:
            guard window.count >= 2 else { return .need(2) }
            place = window[0] == 0xFF ? .codestream : .boxes
            return .consume(window[0] == 0xFF ? 2 : 12)
        case .boxes: return try box(window)
        case .codestream:
            var bits = BitReader(window)
            let header = JPEGXLHeader(&bits)
            if let count = bits.neededBytes { return .need(count) }
            return found(
                header.width, header.height, isTurned: header.orientation >= 5, frames: header.isAnimated ? nil : 1,
                isAnimated: header.isAnimated, hasAlpha: header.hasAlpha)
        }
    }

    private mutating func box(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        let box = try BoxHeader.read(window)
        let headerLength = box.headerLength
        let isPart = window.has("jxlp", at: 4)
        guard isPart || window.has("jxlc", at: 4) else {
            return box.length.map { .consume($0) } ?? damaged("it has no image data")
        }
        // A `jxlp` box begins with a part number. The codestream begins with its signature.
        let start = headerLength + (isPart ? 4 : 0)
        guard window.count >= start + 2 else { return .need(start + 2) }
        guard window[start] == 0xFF, window[start + 1] == 0x0A else {
            return damaged("its codestream has no signature")
        }
        place = .codestream
        return .consume(start + 2)
    }
}

/// The start of a codestream after its signature: the size and the image metadata up to the first extra channel.
struct JPEGXLHeader {
    private(set) var width = 0
    private(set) var height = 0
    /// The orientation, 1 to 8, numbered as in EXIF. Decoders rotate the image themselves.
    private(set) var orientation = 1
    private(set) var isAnimated = false
    /// Whether the image has an alpha channel. Only the first extra channel is read. Nil if that channel is not alpha
    /// and there are further extra channels.
    private(set) var hasAlpha: Bool? = false

    /// Reads the fields. They are valid only if ``BitReader/neededBytes`` is nil afterwards.
    fileprivate init(_ bits: inout BitReader) {
        (width, height) = bits.size()
        if bits.read(1) == 0 { metadata(&bits) }
    }

    /// Reads the fields of ImageMetadata (D.3). Not called if all fields have their default values.
    private mutating func metadata(_ bits: inout BitReader) {
        if bits.read(1) == 1 {
            orientation = 1 + bits.read(3)
            if bits.read(1) == 1 { _ = bits.size() }
            if bits.read(1) == 1 { bits.skipPreview() }
            isAnimated = bits.read(1) == 1
            if isAnimated { bits.skipAnimation() }
        }
        bits.skipDepth()
        _ = bits.read(1)
        let channels = bits.number((0, 0), (1, 0), (2, 4), (1, 12))
        guard channels > 0 else { return }
        // An extra channel is alpha by default.
        if bits.read(1) == 1 || bits.number((0, 0), (1, 0), (2, 4), (18, 6)) == 0 {
            hasAlpha = true
        } else {
            hasAlpha = channels > 1 ? nil : false
        }
    }
}

/// Reads bits, starting with the lowest bit of each byte.
private struct BitReader {
    /// The header up to the first extra channel has fewer bytes than this.
    private static let maxBytes = 64

    private let bytes: [UInt8]
    private var position = 0
    /// The number of bytes that the first read beyond the end required. That read and all later ones return 0.
    private(set) var neededBytes: Int?

    init(_ bytes: Span<UInt8>) { self.bytes = bytes.extracting(first: Self.maxBytes).copy }

    mutating func read(_ count: Int) -> Int {
        let end = position + count
        guard neededBytes == nil, end <= 8 * bytes.count else {
            neededBytes = neededBytes ?? (end + 7) / 8
            return 0
        }
        var value = 0
        for bit in 0..<count {
            let place = position + bit
            value |= Int(bytes[place / 8] >> UInt8(place % 8) & 1) << bit
        }
        position = end
        return value
    }

    /// Reads a U32 (B.2.2): two bits select one of four pairs of an offset and a number of bits. The value is the
    /// offset plus the number in the bits that follow.
    mutating func number(
        _ first: (Int, Int), _ second: (Int, Int), _ third: (Int, Int), _ fourth: (Int, Int)
    ) -> Int {
        let (offset, bits) = [first, second, third, fourth][read(2)]
        return offset + read(bits)
    }

    /// Reads SizeHeader (D.2).
    mutating func size() -> (width: Int, height: Int) {
        let isSmall = read(1) == 1
        let height = side(isSmall)
        let ratio = read(3)
        return (ratio == 0 ? side(isSmall) : Self.width(height, ratio), height)
    }

    private mutating func side(_ isSmall: Bool) -> Int {
        isSmall ? 8 * (1 + read(5)) : number((1, 9), (1, 13), (1, 18), (1, 30))
    }

    private static func width(_ height: Int, _ ratio: Int) -> Int {
        let (over, under) = [(1, 1), (6, 5), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1)][ratio - 1]
        return height * over / under
    }

    /// Skips the fields of PreviewHeader.
    mutating func skipPreview() {
        let isSmall = read(1) == 1
        func side(_ bits: inout BitReader) {
            _ =
                isSmall
                ? bits.number((16, 0), (32, 0), (1, 5), (33, 9)) : bits.number((1, 6), (65, 8), (321, 10), (1345, 12))
        }
        side(&self)
        if read(3) == 0 { side(&self) }
    }

    /// Skips the fields of AnimationHeader.
    mutating func skipAnimation() {
        _ = number((100, 0), (1000, 0), (1, 10), (1, 30))
        _ = number((1, 0), (1001, 0), (1, 8), (1, 10))
        _ = number((0, 0), (0, 3), (0, 16), (0, 32))
        _ = read(1)
    }

    /// Skips the fields of BitDepth.
    mutating func skipDepth() {
        let isFloat = read(1) == 1
        _ = isFloat ? number((32, 0), (16, 0), (24, 0), (1, 6)) : number((8, 0), (10, 0), (12, 0), (1, 6))
        if isFloat { _ = read(4) }
    }
}
