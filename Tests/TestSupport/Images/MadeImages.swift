/// Builds valid and invalid image headers. Most images end soon after the width and height and have no pixel data.
package enum MadeImages {
    package static func big(_ value: Int, _ length: Int) -> [UInt8] {
        (0..<length).map { UInt8(truncatingIfNeeded: value >> (8 * (length - 1 - $0))) }
    }

    package static func little(_ value: Int, _ length: Int) -> [UInt8] {
        (0..<length).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    // MARK: PNG

    package static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let content = Array(type.utf8) + data
        return big(data.count, 4) + content + big(checksum(content), 4)
    }

    /// The CRC-32 of a chunk (PNG specification, section 5.5).
    private static func checksum(_ bytes: [UInt8]) -> Int {
        var value: UInt32 = .max
        for byte in bytes {
            value ^= UInt32(byte)
            for _ in 0..<8 { value = value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
        return Int(~value)
    }

    package static func pngStart(_ width: Int, _ height: Int, depth: UInt8 = 8, color: UInt8 = 6) -> [UInt8] {
        [0x89] + Array("PNG\r\n\u{1a}\n".utf8)
            + chunk("IHDR", big(width, 4) + big(height, 4) + [depth, color, 0, 0, 0])
    }

    package static func png(_ width: Int, _ height: Int, between: [UInt8] = []) -> [UInt8] {
        pngStart(width, height) + between + chunk("IDAT", [1, 2, 3])
    }

    package static func apng(_ width: Int, _ height: Int, frames: Int) -> [UInt8] {
        png(width, height, between: chunk("acTL", big(frames, 4) + big(0, 4)))
    }

    // MARK: JPEG

    package static func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
        [0xFF, marker] + big(data.count + 2, 2) + data
    }

    package static func frame(_ width: Int, _ height: Int, marker: UInt8 = 0xC0) -> [UInt8] {
        segment(marker, [8] + big(height, 2) + big(width, 2) + [3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
    }

    package static func jpeg(_ width: Int, _ height: Int, before: [UInt8] = [], marker: UInt8 = 0xC0) -> [UInt8] {
        [0xFF, 0xD8] + before + frame(width, height, marker: marker) + segment(0xDA, [1, 1, 0, 0, 63, 0]) + [0, 1, 2]
    }

    package static func exif(orientation: Int, isBig: Bool, thumbnail: [UInt8] = []) -> [UInt8] {
        func number(_ value: Int, _ length: Int) -> [UInt8] { isBig ? big(value, length) : little(value, length) }
        let makeEntry = number(0x010F, 2) + number(2, 2) + number(3, 4) + [0x41, 0x42, 0, 0]
        let orientationEntry = number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + [0, 0]
        let header = Array((isBig ? "MM" : "II").utf8) + number(42, 2) + number(8, 4)
        let directory = number(2, 2) + makeEntry + orientationEntry + number(0, 4)
        return segment(0xE1, Array("Exif\0\0".utf8) + header + directory + thumbnail)
    }

    // MARK: GIF

    package static func gif(_ width: Int, _ height: Int, picture: (Int, Int)? = nil, before: [UInt8] = []) -> [UInt8] {
        let inner = picture ?? (width, height)
        return Array("GIF89a".utf8) + little(width, 2) + little(height, 2) + [0x80, 0, 0] + [0, 0, 0, 255, 255, 255]
            + before + [0x2C, 0, 0, 0, 0] + little(inner.0, 2) + little(inner.1, 2) + [0, 2, 0, 0x3B]
    }

    // MARK: WebP

    package static func webp(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let chunk = Array(type.utf8) + little(data.count, 4) + data
        return Array("RIFF".utf8) + little(chunk.count + 4, 4) + Array("WEBP".utf8) + chunk
    }

    package static func lossy(_ width: Int, _ height: Int) -> [UInt8] {
        webp("VP8 ", [0x30, 0x01, 0x00, 0x9D, 0x01, 0x2A] + little(width, 2) + little(height, 2) + [0, 0, 0, 0])
    }

    package static func lossless(_ width: Int, _ height: Int) -> [UInt8] {
        webp("VP8L", [0x2F] + little((width - 1) | (height - 1) << 14, 4) + [0, 0, 0, 0, 0])
    }

    package static func extended(_ width: Int, _ height: Int, isAnimated: Bool = false) -> [UInt8] {
        webp("VP8X", [isAnimated ? 0x02 : 0x10, 0, 0, 0] + little(width - 1, 3) + little(height - 1, 3))
            + Array("ANIM".utf8) + little(6, 4) + [0, 0, 0, 0, 0, 0]
    }

    // MARK: AVIF

    package static func box(_ type: String, _ data: [UInt8]) -> [UInt8] {
        big(data.count + 8, 4) + Array(type.utf8) + data
    }

    package static func brands(_ names: String...) -> [UInt8] {
        box("ftyp", Array(names[0].utf8) + [0, 0, 0, 0] + names.flatMap { Array($0.utf8) })
    }

    package static func ispe(_ width: Int, _ height: Int) -> [UInt8] {
        box("ispe", [0, 0, 0, 0] + big(width, 4) + big(height, 4))
    }

    package static func pitm(_ item: Int) -> [UInt8] { box("pitm", [0, 0, 0, 0] + big(item, 2)) }

    /// Returns an `iprp` box (item properties, ISO/IEC 23008-12) with item numbers of two bytes and property indices of
    /// one byte.
    package static func iprp(_ properties: [[UInt8]], _ items: [(item: Int, properties: [UInt8])]) -> [UInt8] {
        let list = items.flatMap { big($0.item, 2) + [UInt8($0.properties.count)] + $0.properties }
        return box(
            "iprp", box("ipco", properties.flatMap { $0 }) + box("ipma", [0, 0, 0, 0] + big(items.count, 4) + list))
    }

    /// Returns the box with its size set to 0, so that it extends to the end of the file.
    package static func open(_ box: [UInt8]) -> [UInt8] { [0, 0, 0, 0] + box.dropFirst(4) }

    /// Returns an `iloc` box (item locations, ISO/IEC 14496-12) with one extent for each item.
    /// - Parameter isInMeta: whether the offsets are relative to the `idat` box instead of the file
    package static func iloc(_ extents: [(item: Int, offset: Int, length: Int)], isInMeta: Bool = false) -> [UInt8] {
        var items: [UInt8] = []
        for (item, offset, length) in extents {
            items += big(item, 2) + big(isInMeta ? 1 : 0, 2)
            items += [0, 0, 0, 1]
            items += big(offset, 4) + big(length, 4)
        }
        return box("iloc", [1, 0, 0, 0, 0x44, 0] + big(extents.count, 2) + items)
    }

    package static func meta(_ boxes: [UInt8]...) -> [UInt8] { box("meta", [0, 0, 0, 0] + boxes.flatMap { $0 }) }

    /// Returns an AVIF file whose picture is item 2. Item 1 is a thumbnail of 8 x 8 pixels.
    /// - Parameter turns: the value of the `irot` property, in quarter turns
    package static func avif(_ width: Int, _ height: Int, turns: UInt8 = 0) -> [UInt8] {
        brands("avif", "mif1", "miaf")
            + meta(
                box("hdlr", [0, 0, 0, 0]), pitm(2),
                iprp([ispe(8, 8), ispe(width, height), box("irot", [turns])], [(1, [1]), (2, [0x82, 0x83])]))
            + box("mdat", [1, 2, 3])
    }

    /// Returns a track of an image sequence.
    /// - Parameter handler: `pict` for pictures, `auxv` for their alpha values
    package static func track(_ handler: String, _ width: Int, _ height: Int) -> [UInt8] {
        func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
        let entry = box("av01", zeros(24) + big(width, 2) + big(height, 2) + zeros(50))
        let samples = box("minf", box("vmhd", zeros(12)) + box("stbl", box("stsd", zeros(7) + [1] + entry)))
        let media = box("mdhd", zeros(24)) + box("hdlr", zeros(8) + Array(handler.utf8) + zeros(13)) + samples
        return box("trak", box("tkhd", zeros(84)) + box("mdia", media))
    }

    package static func movie(_ tracks: [UInt8]...) -> [UInt8] {
        box("moov", box("mvhd", [UInt8](repeating: 0, count: 100)) + tracks.flatMap { $0 })
    }

    /// Returns an AVIF file with a `mini` box (ISO/IEC 23008-12).
    /// - Parameters:
    ///   - orientation: 1 to 8, numbered as in EXIF
    ///   - codec: the codec in the minor version of the file type
    package static func minimized(
        _ width: Int, _ height: Int, orientation: Int = 1, hasAlpha: Bool = false, codec: String = "avif"
    ) -> [UInt8] {
        let flags = (hasAlpha ? 1 << 10 : 0) | 1 << 3 | (orientation - 1)
        let isLarge = max(width, height) > 128
        let sides =
            isLarge ? 1 << 31 | (width - 1) << 16 | (height - 1) << 1 : (width - 1) << 24 | (height - 1) << 17
        let type = box("ftyp", Array("mif3".utf8) + Array(codec.utf8))
        return type + box("mini", big(flags, 2) + big(sides, 4) + [1, 2])
    }

    // MARK: Bitmaps and icons

    /// Returns the header of a bitmap without the file header.
    /// - Parameters:
    ///   - size: the length of the header, which identifies its version
    ///   - colors: the number of colors in the palette; 0 if the header does not declare it
    package static func bitmapHeader(
        _ size: Int, _ width: Int, _ height: Int, bits: Int = 24, planes: Int = 1, compression: Int = 0,
        dataLength: Int = 0, colors: Int = 0
    ) -> [UInt8] {
        let sideLength = size == 12 ? 2 : 4
        var header = little(size, 4) + little(width, sideLength) + little(height, sideLength)
        header += little(planes, 2) + little(bits, 2)
        if size > 16 { header += little(compression, 4) + little(dataLength, 4) + little(0, 8) + little(colors, 4) }
        return header + [UInt8](repeating: 0, count: size - header.count)
    }

    package static func bmp(_ width: Int, _ height: Int, header: Int = 40) -> [UInt8] {
        bmp(bitmapHeader(header, width, height)) + [1, 2, 3, 4]
    }

    /// Returns a bitmap file up to its pixels. The file size in it is wrong, as in many files.
    /// - Parameter gap: the number of bytes between the header and the pixels
    package static func bmp(_ header: [UInt8], gap: Int = 0) -> [UInt8] {
        Array("BM".utf8) + little(7, 4) + [0, 0, 0, 0] + little(14 + header.count + gap, 4) + header
            + [UInt8](repeating: 7, count: gap)
    }

    /// Returns an RLE-compressed bitmap of 3 x 2 pixels.
    /// - Parameter bits: 8 for RLE8, 4 for RLE4, 24 for RLE24
    package static func runs(_ data: [UInt8], bits: Int = 8) -> [UInt8] {
        let (size, compression) = bits == 24 ? (64, 4) : (40, bits == 8 ? 1 : 2)
        return bmp(bitmapHeader(size, 3, 2, bits: bits, compression: compression), gap: 8) + data
    }

    /// Returns a picture of an icon with black pixels and, unless it has 32 bits per pixel, with a mask.
    /// - Parameter header: the length of the header
    package static func iconBitmap(
        _ width: Int, _ height: Int, header: Int = 40, bits: Int = 24, compression: Int = 0
    ) -> [UInt8] {
        let palette = bits <= 8 ? (header == 12 ? 3 : 4) << bits : 0
        let masks = header == 40 && compression == 3 ? 12 : 0
        let row = (width * bits + 31) / 32 * 4 + (bits < 32 ? (width + 31) / 32 * 4 : 0)
        return bitmapHeader(header, width, 2 * height, bits: bits, compression: compression)
            + [UInt8](repeating: 0, count: palette + masks + row * height)
    }

    /// - Parameter length: the length of each picture in the directory; nil for the real one
    package static func ico(
        _ pictures: [[UInt8]], type: Int = 1, sides: (UInt8, UInt8) = (16, 16), length: Int? = nil
    ) -> [UInt8] {
        var offset = 6 + 16 * pictures.count
        var directory = little(0, 2) + little(type, 2) + little(pictures.count, 2)
        for picture in pictures {
            directory += [sides.0, sides.1, 0, 0, 1, 0, 32, 0] + little(length ?? picture.count, 4) + little(offset, 4)
            offset += picture.count
        }
        return directory + pictures.flatMap { $0 }
    }

    // MARK: SVG

    package static func svg(_ attributes: String, prolog: String = "") -> [UInt8] {
        Array("\(prolog)<svg xmlns=\"http://www.w3.org/2000/svg\" \(attributes)><rect/></svg>".utf8)
    }
}
