import LarderImageFormats

/// What a reader says of these bytes and their end, given in pieces of one size.
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

/// `type width×height frames orientation`, or the code of the refusal.
func summary(_ bytes: [UInt8]) -> String {
    switch readHeader(bytes) {
    case .needMore: "needMore"
    case .found(let header):
        "\(header.type.rawValue) \(header.width)×\(header.height)"
            + (header.frameCount.map { " frames \($0)" } ?? "") + (header.orientation.map { " turned \($0)" } ?? "")
    case .refused(let error): error.reason.rawValue
    }
}

/// The message of the refusal, or nothing.
func refusal(_ bytes: [UInt8]) -> String? {
    guard case .refused(let error) = readHeader(bytes) else { return nil }
    return error.message
}
