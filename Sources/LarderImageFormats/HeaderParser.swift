/// What a parser wants after it has looked at its window.
enum HeaderStep {
    /// The first bytes are done with; how many may be more than the window has, then the rest goes by unseen.
    case consume(Int)
    /// Look again when the window has so many bytes, more than it has now.
    case need(Int)
    /// Another parser goes on from here.
    case becomes(any HeaderParser)
    /// The header is read.
    case found(ImageHeader)
    /// There is no header, or none that is acceptable.
    case refused(ImageFormatError)
}

/// Reads one format's header, without input and output: it is shown a window of the bytes and says what it wants next.
///
/// Each step must make progress (consume something, ask for more than there is, or end), so that reading takes time in
/// proportion to the bytes however they are cut. What is passed over is never held in memory.
protocol HeaderParser: Sendable {
    /// How many bytes from the start of the image may go by before the header ends. Nothing beyond is waited for.
    static var lookAhead: Int { get }

    /// Looks at the bytes that were not consumed yet, at least as many as were asked for (one, if nothing was).
    mutating func step(_ window: Span<UInt8>) -> HeaderStep

    /// Why an image that ends here is refused. The window has fewer bytes than were asked for.
    func ended(_ window: Span<UInt8>) -> ImageFormatError

    /// Why an image is refused whose header does not end within ``lookAhead``.
    var tooLong: ImageFormatError { get }
}

/// A parser that knows the type already.
protocol TypedHeaderParser: HeaderParser {
    var type: ImageType { get }
}

extension TypedHeaderParser {
    func ended(_ window: Span<UInt8>) -> ImageFormatError { .truncated(type) }

    var tooLong: ImageFormatError { .headerTooLong(type, limit: Self.lookAhead) }

    func damaged(_ what: String) -> HeaderStep { .refused(.damaged(type, what)) }

    func found(
        _ width: Int, _ height: Int, frames: Int?, orientation: Int? = nil, isAnimated: Bool? = nil,
        hasAlpha: Bool? = nil
    ) -> HeaderStep {
        guard width > 0, height > 0 else { return damaged("it is \(width) by \(height) pixels") }
        return .found(
            ImageHeader(
                type, width: width, height: height, frameCount: frames, orientation: orientation,
                isAnimated: isAnimated, hasAlpha: hasAlpha))
    }
}

extension Span where Element == UInt8 {
    func big16(_ offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }
    func big32(_ offset: Int) -> Int { big16(offset) << 16 | big16(offset + 2) }
    func little16(_ offset: Int) -> Int { Int(self[offset + 1]) << 8 | Int(self[offset]) }
    func little24(_ offset: Int) -> Int { Int(self[offset + 2]) << 16 | little16(offset) }
    func little32(_ offset: Int) -> Int { little16(offset + 2) << 16 | little16(offset) }

    /// Whether these bytes are at an offset; no if the span ends before.
    func has(_ bytes: StaticString, at offset: Int = 0) -> Bool {
        let length = bytes.utf8CodeUnitCount
        guard offset >= 0, length <= count - offset else { return false }
        return bytes.withUTF8Buffer { buffer in (0..<length).allSatisfy { buffer[$0] == self[offset + $0] } }
    }
}
