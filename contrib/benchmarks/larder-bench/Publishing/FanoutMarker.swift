import Glibc

/// A text at the start of every published value that is unique to the publication, so that a subscriber can
/// distinguish its event from older ones. Its length is constant, so that it can be overwritten in prepared bytes.
struct FanoutMarker {
    /// The length of a marker in bytes: a letter, eight digits for the run, eight for the publication.
    static let length = 17

    private let run = String((MonotonicClock.nanoseconds() / 1000) & 0xFFFF_FFFF | 1 << 32, radix: 16).dropFirst()
    private var publication = 0

    /// The marker of the current publication.
    var text: String { "r\(run)\(10_000_000 + publication % 90_000_000)" }

    /// Advances to the next publication.
    mutating func advance() { publication += 1 }
}
