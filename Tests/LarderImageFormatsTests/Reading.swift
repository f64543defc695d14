import LarderImageFormats

/// The result of a reader that receives the bytes in pieces of `pieces` bytes, and then the end of the input.
func readHeader(_ bytes: [UInt8], pieces: Int = .max) -> ImageHeaderReader.Progress {
    var reader = ImageHeaderReader()
    var rest = bytes[...]
    while !rest.isEmpty {
        let piece = Array(rest.prefix(pieces))
        rest = rest.dropFirst(piece.count)
        if reader.feed(piece) != .needMore { break }
    }
    return reader.finish()
}

/// `type width×height frames orientation`, or the reason of the error.
func summary(_ bytes: [UInt8]) -> String {
    switch readHeader(bytes) {
    case .needMore: "needMore"
    case .found(let header):
        "\(header.type.rawValue) \(header.width)×\(header.height)"
            + (header.frameCount.map { " frames \($0)" } ?? "") + (header.orientation.map { " turned \($0)" } ?? "")
    case .rejected(let error): error.reason.rawValue
    }
}

/// The message of the error; nil if a header was found.
func refusal(_ bytes: [UInt8]) -> String? {
    guard case .rejected(let error) = readHeader(bytes) else { return nil }
    return error.message
}
