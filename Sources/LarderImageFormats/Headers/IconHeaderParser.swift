/// Windows icons (.ico) and cursors (.cur): an ``IconDirectory``, then the pictures. The size is that of the largest
/// picture.
///
/// The headers of all pictures are read. Otherwise an icon listed as 16 by 16 could contain a decompression bomb.
struct IconHeaderParser: TypedHeaderParser {
    var type: ImageType { .ico }
    static var lookAhead: Int { 16 << 20 }

    /// The offsets in the file of the pictures that have not been read yet, in ascending order. Nil until the directory
    /// has been read.
    private var offsets: ArraySlice<Int>?
    private var position = 0
    private var largest = (width: 0, height: 0)

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        guard let offsets else {
            let directory = try IconDirectory.read(window)
            self.offsets = directory.offsets[...]
            return consume(directory.length)
        }
        guard let next = offsets.first else { return found(largest.width, largest.height, frames: nil) }
        guard next >= position else { return damaged("two pictures in it overlap") }
        return next > position ? consume(next - position) : try picture(window)
    }

    private mutating func picture(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        let picture = try IconPicture.read(window)
        let size = picture.size
        guard size.height > 0 else { return damaged("a picture in it has no height") }
        // A side has at most 31 bits.
        if size.width * size.height > largest.width * largest.height { largest = size }
        offsets?.removeFirst()
        if offsets?.isEmpty == true { return found(largest.width, largest.height, frames: nil) }
        return consume(picture.headerLength)
    }

    private mutating func consume(_ count: Int) -> HeaderStep {
        position += count
        return .consume(count)
    }
}

/// The directory of an icon or cursor. It has one byte for each side of a picture (0 means 256), and a length, which
/// decoders ignore in favor of each picture's own header.
struct IconDirectory {
    /// The maximum number of pictures. Typical icons have about ten; a few have fifty.
    private static let maxPictures = 256

    let length: Int
    /// The offsets in the file of the pictures, in ascending order, without duplicates. At least one.
    let offsets: [Int]

    static func read(_ window: Span<UInt8>) throws(Unreadable) -> IconDirectory {
        guard window.count >= 6 else { throw .needs(6) }
        let count = window.little16(4)
        guard (1...maxPictures).contains(count) else { throw .damaged("it declares \(count) pictures") }
        let length = 6 + 16 * count
        guard window.count >= length else { throw .needs(length) }
        let offsets = Set((0..<count).map { window.little32(6 + 16 * $0 + 12) }).sorted()
        guard offsets[0] >= length else { throw .damaged("a picture overlaps its directory") }
        return IconDirectory(length: length, offsets: offsets)
    }
}

/// A picture of an icon: a PNG file, or a bitmap without its file header, followed by a mask of one bit per pixel.
enum IconPicture {
    case png(PNGStart)
    case bitmap(BitmapHeader)

    /// Reads the header of the picture at the start of the window, which must not be empty.
    static func read(_ window: Span<UInt8>) throws(Unreadable) -> IconPicture {
        do throws(Unreadable) {
            return window[0] == 0x89 ? .png(try PNGStart.read(window)) : .bitmap(try BitmapHeader.read(window))
        } catch {
            guard case .damaged(let reason) = error else { throw error }
            throw .damaged("one of its pictures is damaged: \(reason)")
        }
    }

    /// The number of bytes that ``read(_:)`` has read.
    var headerLength: Int {
        switch self {
        case .png: PNGStart.length
        case .bitmap(let bitmap): bitmap.length
        }
    }

    var size: (width: Int, height: Int) {
        switch self {
        case .png(let png): (png.width, png.height)
        case .bitmap(let bitmap): (bitmap.width, bitmap.height / 2)
        }
    }
}

extension BitmapHeader {
    /// The length of a picture in an icon that consists of this header, a palette, pixels and the mask. Nil if the
    /// pixels are compressed, or if the length is 2^63 or more.
    var iconLength: Int? {
        guard [0, 3, 6].contains(compression) else { return nil }
        let masks = length == 40 ? [3: 12, 6: 16][compression] ?? 0 : 0
        // Without palette indices, decoders ignore the number of colors.
        let maxColors = bitsPerPixel <= 8 ? 1 << bitsPerPixel : 0
        let palette = (length == 12 ? 3 : 4) * (colors == 0 ? maxColors : min(colors, maxColors))
        // Decoders do not need the mask of a picture with alpha values.
        let maskRows = bitsPerPixel < 32 ? height / 2 : 0
        guard let pixels = Self.bytes(rows: height / 2, of: width, bitsPerPixel: bitsPerPixel),
            let mask = Self.bytes(rows: maskRows, of: width, bitsPerPixel: 1)
        else { return nil }
        let (bytes, overflows) = pixels.addingReportingOverflow(mask)
        let (sum, carries) = bytes.addingReportingOverflow(length + masks + palette)
        return overflows || carries ? nil : sum
    }
}
