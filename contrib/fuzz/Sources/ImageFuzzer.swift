import LarderImageFormats

/// Checks that an image gives the same header and completeness however it is split, and that the header is plausible.
@Sendable
func fuzzImages(_ input: UnsafeRawBufferPointer) {
    var header: ImageHeaderReader.Progress?
    var isComplete: Bool?
    for pieces in splits(of: input) {
        var reader = ImageHeaderReader()
        var detector = TruncationDetector()
        for piece in pieces {
            _ = reader.feed(piece)
            detector.feed(piece)
        }
        let found = reader.finish()
        require(header.map { $0 == found } ?? true, "split differently, the image gives \(found), not \(header!)")
        require(
            isComplete.map { $0 == detector.isComplete } ?? true,
            "the completeness of the image depends on its splitting")
        header = found
        isComplete = detector.isComplete
    }
    switch header {
    case .found(let header):
        require(header.width > 0 && header.height > 0, "an image of \(header.width) by \(header.height) pixels")
        require(header.frameCount.map { $0 > 0 } ?? true, "an image without frames")
        require(header.orientation.map { (2...8).contains($0) } ?? true, "an invalid orientation")
        require(header.pixelCount.map { $0 > 0 } ?? true, "an image without pixels")
        try? ImageLimits().check(header)
    case .rejected(let error): require(!error.description.isEmpty, "a rejection without a reason")
    default: require(input.isEmpty, "no result after the end of an image")
    }
}
