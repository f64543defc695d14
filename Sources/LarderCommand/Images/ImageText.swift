import LarderClientCore

/// Short descriptions of images.
enum ImageText {
    /// `image/png, 640×480, 38 kB`
    static func properties(_ image: WireImage) -> String {
        [image.mediaType.printable, pixels(image), Human.bytes(image.bytes)].compactMap(\.self).joined(separator: ", ")
    }

    /// `640×480`; nil for an SVG without a size.
    static func pixels(_ image: WireImage) -> String? {
        image.width > 0 && image.height > 0 ? "\(image.width)×\(image.height)" : nil
    }
}
