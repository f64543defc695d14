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
