import LarderImageFormats

/// However an image arrives, its header says the same, and so does its end; sizes are such as an image can have.
@Sendable
func fuzzImages(_ input: UnsafeRawBufferPointer) {
    var header: ImageHeaderReader.Progress?
    var isComplete: Bool?
    for pieces in arrivals(input) {
        var reader = ImageHeaderReader()
        var ends = TruncationDetector()
        for piece in pieces {
            _ = reader.feed(piece)
            ends.feed(piece)
        }
        let found = reader.finish()
        require(header.map { $0 == found } ?? true, "the same image in other pieces: \(found), not \(header!)")
        require(isComplete.map { $0 == ends.isComplete } ?? true, "the same image in other pieces has another end")
        header = found
        isComplete = ends.isComplete
    }
    switch header {
    case .found(let header):
        require(header.width > 0 && header.height > 0, "an image of \(header.width) by \(header.height)")
        require(header.frameCount.map { $0 > 0 } ?? true, "an image without frames")
        require(header.orientation.map { (2...8).contains($0) } ?? true, "an orientation that is none")
        require(header.pixelCount.map { $0 > 0 } ?? true, "an image without pixels")
        try? ImageLimits().check(header)
    case .refused(let error): require(!error.description.isEmpty, "a refusal without a reason")
    default: require(input.isEmpty, "an image that has ended, and nothing is known of it")
    }
}
