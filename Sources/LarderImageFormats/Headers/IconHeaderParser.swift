/// Windows icons (.ico) and cursors (.cur): a directory, then pictures, each a PNG file or a bitmap without its file
/// header. The size is that of the largest picture.
///
/// The directory has one byte for each side (0 means 256), which decoders ignore in favour of each picture's own
/// header. All picture headers are therefore read. Otherwise an icon listed as 16 by 16 could contain a decompression
/// bomb.
struct IconHeaderParser: TypedHeaderParser {
    var type: ImageType { .ico }
    static var lookAhead: Int { 16 << 20 }

    /// The maximum number of pictures. Typical icons have about ten; a few have fifty.
    static let maxPictures = 256

    /// The offsets in the file of the pictures that have not been read yet, in ascending order. Nil until the directory
    /// has been read.
    private var offsets: ArraySlice<Int>?
    private var position = 0
    private var largest = (width: 0, height: 0)

    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        guard let offsets else { return directory(window) }
        if let next = offsets.first, next > position {
            let distance = next - position
            position = next
            return .consume(distance)
        }
        return picture(window)
    }

    private mutating func directory(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 6 else { return .need(6) }
        let count = window.little16(4)
        guard count <= Self.maxPictures else { return damaged("it declares \(count) pictures") }
        let end = 6 + 16 * count
        guard window.count >= end else { return .need(end) }
        let found = Set((0..<count).map { window.little32(6 + 16 * $0 + 12) }).sorted()
        guard let first = found.first, first >= end else { return damaged("a picture overlaps its directory") }
        offsets = found[...]
        position = end
        return .consume(end)
    }

    private mutating func picture(_ window: Span<UInt8>) -> HeaderStep {
        guard window.count >= 24 else { return .need(24) }
        let size: (width: Int, height: Int)
        if window[0] == 0x89, window.has("PNG", at: 1), window.has("IHDR", at: 12) {
            size = (window.big32(16), window.big32(20))
        } else if window.little32(0) == 40, let bitmap = BMPHeaderParser.size(window, at: 0) {
            // The height in the header of the bitmap includes the mask, which is as high as the picture.
            size = (bitmap.width, bitmap.height / 2)
        } else {
            return damaged("a picture in it is neither PNG nor a bitmap")
        }
        // The sides of a valid PNG have at most 31 bits. Much larger ones are rejected here, so that their product
        // below cannot overflow.
        guard size.width > 0, size.height > 0, max(size.width, size.height) <= 1 << 31 else {
            return damaged("a picture in it is \(size.width) by \(size.height) pixels")
        }
        if size.width * size.height > largest.width * largest.height { largest = size }
        offsets?.removeFirst()
        guard let next = offsets?.first else { return found(largest.width, largest.height, frames: nil) }
        guard next >= position + 24 else { return damaged("two pictures in it overlap") }
        position += 24
        return .consume(24)
    }
}
