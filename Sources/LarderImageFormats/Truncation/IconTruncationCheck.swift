/// Icons: up to the end of the picture that ends last. The lengths in the directory are wrong in some files, so the end
/// of each picture follows from the picture itself.
struct IconTruncationCheck: TruncationCheck {
    /// The offsets in the file of the pictures that have not been read yet, in ascending order. Nil until the directory
    /// has been read.
    private var offsets: ArraySlice<Int>?
    private var position = 0
    /// The end of the picture that ends last, of those that have been read.
    private var end = 0
    /// The check of the PNG picture that is being read.
    private var png: PNGTruncationCheck?

    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        if png != nil { return pngStep(window) }
        guard let offsets else {
            let directory = try IconDirectory.read(window)
            self.offsets = directory.offsets[...]
            return consume(directory.length)
        }
        guard let next = offsets.first, next >= position else { return .endless }
        return next > position ? consume(next - position) : try picture(window)
    }

    private mutating func picture(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        switch try IconPicture.read(window) {
        case .png:
            offsets?.removeFirst()
            png = PNGTruncationCheck()
            return pngStep(window)
        case .bitmap(let header):
            guard let length = header.iconLength else { return .endless }
            offsets?.removeFirst()
            return passing(header.length, pictureLength: length)
        }
    }

    private mutating func pngStep(_ window: Span<UInt8>) -> TruncationStep {
        switch png?.step(window) {
        case .consume(let count): return consume(count)
        case .need(let count): return .need(count)
        case .complete(let count):
            png = nil
            return passing(count, pictureLength: count)
        case .becomes, .endless, nil: return .endless
        }
    }

    /// Consumes `count` bytes of a picture of which `pictureLength` bytes are left. After the last picture, the image
    /// ends with the picture that ends last.
    private mutating func passing(_ count: Int, pictureLength: Int) -> TruncationStep {
        let (pictureEnd, overflows) = position.addingReportingOverflow(pictureLength)
        if overflows { return .endless }
        end = max(end, pictureEnd)
        return offsets?.isEmpty == true ? .complete(after: end - position) : consume(count)
    }

    private mutating func consume(_ count: Int) -> TruncationStep {
        position += count
        return .consume(count)
    }
}
