/// The next action of a check.
enum TruncationStep {
    /// Consume this many bytes. If the window has fewer, the remaining ones are skipped on arrival.
    case consume(Int)
    /// Call `step` again when the window has this many bytes, which must be more than the window has now. The bytes are
    /// buffered, so the number must be small.
    case need(Int)
    /// Continue with another check.
    case becomes(any TruncationCheck)
    /// The image ends after this many bytes, which may be more than the window has.
    case complete(after: Int)
    /// The end of the image cannot be determined.
    case endless
}

/// Follows an image of one format to its end.
///
/// The rules for steps are those of ``HeaderParser``.
protocol TruncationCheck: Sendable {
    /// The number of frames so far. Nil if the check does not count them.
    var frameCount: Int? { get }

    /// Whether the image is complete if it ends with the consumed bytes, although its format defines a later end.
    var mayEnd: Bool { get }

    /// Parses the unconsumed bytes. The window has at least the number of bytes that the last step required, and at
    /// least one. Throws if the window is too short for a part of a header, or if the part is damaged. In the latter
    /// case the end of the image cannot be determined.
    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep
}

extension TruncationCheck {
    var frameCount: Int? { nil }
    var mayEnd: Bool { false }
}
