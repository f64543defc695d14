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
