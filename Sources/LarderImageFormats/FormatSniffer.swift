/// Detects the format of an image from its first bytes. If the bytes are not an image, the error names the format that
/// they resemble.
///
/// The declared media type and the file name are ignored: HTML named `.png` is detected as HTML.
struct FormatSniffer: HeaderParser {
    static var lookAhead: Int { 64 }

    /// The number of bytes that the longest signature needs.
    static let signatureLength = 18

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= Self.signatureLength else { return .need(Self.signatureLength) }
        if let readers = Self.readers(window) { return .becomes(readers.header) }
        return .rejected(Self.rejection(window))
    }

    /// A file that is shorter than ``signatureLength`` is never a complete image. Even the smallest SVG that draws
    /// something is longer.
    func ended(_ window: Span<UInt8>) -> ImageFormatError {
        switch window.count {
        case 0: .notAnImage("an empty file")
        case 1..<8: .notAnImage("a file of \(window.count) bytes")
        // Bytes that begin like an image count as a truncated image.
        default: Self.readers(window).map { $0.header.ended(window) } ?? Self.rejection(window)
        }
    }

    var tooLong: ImageFormatError { .notAnImage("data of an unknown type") }

    /// Creates the parser of the header and the check for truncation of images of the type that a window begins with;
    /// nil if it does not begin like an image.
    static func readers(_ window: Span<UInt8>) -> (header: any HeaderParser, end: any TruncationCheck)? {
        switch type(window) {
        case .png: (PNGHeaderParser(), PNGTruncationCheck())
        case .jpeg: (JPEGHeaderParser(), JPEGTruncationCheck())
        case .gif: (GIFHeaderParser(), GIFTruncationCheck())
        case .webp: (WebPHeaderParser(), WebPTruncationCheck())
        case .avif, .heic: (HEIFHeaderParser(), HEIFTruncationCheck())
        case .jxl: (JPEGXLHeaderParser(), JPEGXLTruncationCheck())
        case .ico: (IconHeaderParser(), IconTruncationCheck())
        case .bmp: (BMPHeaderParser(), BMPTruncationCheck())
        case .svg: (SVGHeaderParser(), SVGTruncationCheck())
        case nil: nil
        }
    }

    /// The image type whose signature is at the start of the window; nil if no format matches. The window must have at
    /// least eight bytes.
    static func type(_ window: Span<UInt8>) -> ImageType? {
        if PNGStart.isSignature(window) { return .png }
        if window[0] == 0xFF, window[1] == 0xD8, window[2] == 0xFF { return .jpeg }
        if window.has("GIF87a") || window.has("GIF89a") { return .gif }
        if window.has("RIFF"), window.has("WEBP", at: 8) { return .webp }
        // AVIF or HEIC: the parser distinguishes them by their brands.
        if window.has("ftyp", at: 4) { return .avif }
        if window[0] == 0xFF, window[1] == 0x0A { return .jxl }
        if window.has("\0\0\0\u{0c}JXL ") { return .jxl }
        if window.little16(0) == 0, [1, 2].contains(window.little16(2)), window.little16(4) > 0 { return .ico }
        // The letters "BM" alone are a weak signature of a bitmap, so the size of the second header is checked too.
        if window.has("BM"), window.count < 18 || BitmapHeader.knownLengths.contains(window.little32(14)) {
            return .bmp
        }
        // Checks at most ``signatureLength`` bytes. The window may have more, depending on how the input is split, and
        // the result must not depend on that.
        let start = window.extracting(first: signatureLength)
        return SVGHeaderParser.mayBegin(start) ? .svg : nil
    }

    /// The error for bytes that match no supported format. It names the format that they resemble.
    private static func rejection(_ window: Span<UInt8>) -> ImageFormatError {
        for (bytes, offset, name) in unsupportedImages where window.has(bytes, at: offset) { return .unsupported(name) }
        for (bytes, offset, name) in others where window.has(bytes, at: offset) { return .notAnImage(name) }
        // The signatures that are checked next contain bytes that are not valid UTF-8 and so cannot be in a
        // `StaticString`.
        if window[0] == 0x1F, window[1] == 0x8B {
            return .notAnImage("gzip data (a compressed SVG must be decompressed)")
        }
        if [0xFEFF, 0xFFFE, 0x003C, 0x3C00].contains(window.little16(0)) {
            return .unsupported("text in UTF-16 (an SVG must be in UTF-8)")
        }
        // Checks at most ``signatureLength`` bytes. The window may have more, depending on how the input is split, and
        // the result must not depend on that.
        let isText = (0..<min(window.count, signatureLength)).allSatisfy {
            window[$0] >= 0x20 || [0x09, 0x0A, 0x0D].contains(window[$0])
        }
        return .notAnImage(isText ? "text" : "data of an unknown type")
    }

    private static let unsupportedImages: [(StaticString, Int, String)] = [
        ("II*\0", 0, "TIFF"), ("MM\0*", 0, "TIFF"), ("8BPS", 0, "a Photoshop document"),
        ("\0\0\0\u{0c}jP  ", 0, "JPEG 2000"), ("icns", 0, "an Apple icon"),
        ("DDS ", 0, "a DirectDraw surface"), ("qoif", 0, "QOI"),
    ]

    private static let others: [(StaticString, Int, String)] = [
        ("%PDF-", 0, "PDF"), ("%!PS", 0, "PostScript"), ("PK\u{03}\u{04}", 0, "a ZIP archive"),
        ("7z", 0, "a 7z archive"),
        ("RIFF", 0, "sound or video (RIFF)"), ("ID3", 0, "MP3 sound"), ("OggS", 0, "Ogg sound or video"),
        ("\u{7f}ELF", 0, "a program"), ("{", 0, "JSON"), ("[", 0, "JSON"), ("SQLite format 3", 0, "a database"),
    ]
}
