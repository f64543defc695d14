/// The next action of a parser.
enum HeaderStep {
    /// Consume this many bytes. If the window has fewer, the remaining ones are skipped on arrival.
    case consume(Int)
    /// Call `step` again when the window has this many bytes, which must be more than the window has now.
    case need(Int)
    /// Continue with another parser.
    case becomes(any HeaderParser)
    /// The header was read.
    case found(ImageHeader)
    /// The bytes have no acceptable header.
    case rejected(ImageFormatError)
}

/// Reads the header of one format without performing I/O. Each step receives a window, which has the next unconsumed
/// bytes, and returns the next action.
///
/// Each step must make progress: consume bytes, require more bytes than the window has, or end. A loop in a step must
/// consume bytes in each iteration, or read with a ``ByteReader``. Parsing then takes time in proportion to the input,
/// however it is split; a parser that makes no progress exhausts its budget. Skipped bytes are never buffered.
protocol HeaderParser: Sendable {
    /// The maximum number of bytes from the start of the image to the end of its header. The reader rejects an image
    /// with a longer header.
    static var lookAhead: Int { get }

    /// Parses the unconsumed bytes. The window has at least the number of bytes that the last step required, and at
    /// least one.
    mutating func step(_ window: Span<UInt8>) -> HeaderStep

    /// The error for an image that ends before the parser has found the header. The window has fewer bytes than the
    /// last step required.
    func ended(_ window: Span<UInt8>) -> ImageFormatError

    /// The error for an image whose header does not end within ``lookAhead``.
    var tooLong: ImageFormatError { get }
}

/// A parser for one known image type.
protocol TypedHeaderParser: HeaderParser {
    var type: ImageType { get }

    /// Does the work of ``HeaderParser/step(_:)``. Throws if the window is too short for a part of the header, or if the
    /// part is damaged.
    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep
}

extension TypedHeaderParser {
    mutating func step(_ window: Span<UInt8>) -> HeaderStep {
        do throws(Unreadable) {
            return try read(window)
        } catch {
            switch error {
            case .needs(let count): return .need(count)
            case .damaged(let reason): return damaged(reason)
            }
        }
    }

    func ended(_ window: Span<UInt8>) -> ImageFormatError { .truncated(type) }

    var tooLong: ImageFormatError { .damaged(type, "its size is not within the first \(Self.lookAhead) bytes") }

    func damaged(_ what: String) -> HeaderStep { .rejected(.damaged(type, what)) }

    /// - Parameter isTurned: whether the picture is displayed with its sides exchanged
    func found(
        _ width: Int, _ height: Int, isTurned: Bool = false, frames: Int?, orientation: Int? = nil,
        isAnimated: Bool? = nil,
        hasAlpha: Bool? = nil
    ) -> HeaderStep {
        let (width, height) = isTurned ? (height, width) : (width, height)
        guard width > 0, height > 0 else { return damaged("it is \(width) by \(height) pixels") }
        return .found(
            ImageHeader(
                type, width: width, height: height, frameCount: frames, orientation: orientation,
                isAnimated: isAnimated, hasAlpha: hasAlpha))
    }
}

/// Why a part of a header cannot be read from a window.
enum Unreadable: Error {
    /// The window is too short: it must have at least this many bytes.
    case needs(Int)
    /// The part is damaged; the text gives the reason.
    case damaged(String)
}

extension Span where Element == UInt8 {
    func big16(_ offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }
    func big32(_ offset: Int) -> Int { big16(offset) << 16 | big16(offset + 2) }
    func little16(_ offset: Int) -> Int { Int(self[offset + 1]) << 8 | Int(self[offset]) }
    func little24(_ offset: Int) -> Int { Int(self[offset + 2]) << 16 | little16(offset) }
    func little32(_ offset: Int) -> Int { little16(offset + 2) << 16 | little16(offset) }

    var copy: [UInt8] { withUnsafeBufferPointer { Array($0) } }

    /// Whether the span contains all of these bytes at `offset`.
    func has(_ bytes: StaticString, at offset: Int = 0) -> Bool {
        let length = bytes.utf8CodeUnitCount
        guard offset >= 0, length <= count - offset else { return false }
        return bytes.withUTF8Buffer { buffer in (0..<length).allSatisfy { buffer[$0] == self[offset + $0] } }
    }
}

/// The steps that a parser may still take. Each byte of its input allows two.
///
/// A step is one call of a parser, or one read of a ``ByteReader``. The budget therefore also ends loops that consume no
/// input, such as a loop over a count that the input declares.
struct StepBudget: Sendable {
    static let stepsPerByte = 2

    /// The number of steps taken so far.
    private(set) var taken = 0
    private var limit = 0

    /// Adds the steps that `count` bytes of input allow.
    mutating func receive(_ count: Int) { limit += Self.stepsPerByte * count }

    /// Takes a step. Returns false if no step is left.
    mutating func take() -> Bool {
        guard taken < limit else { return false }
        taken += 1
        return true
    }
}
