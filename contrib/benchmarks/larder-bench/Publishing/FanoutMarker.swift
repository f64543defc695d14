import Glibc

/// Text at the start of every published value that no other publication has: by it a subscriber's event is told from
/// an older one. It has the same length every time, so that it can be written over in prepared bytes.
struct FanoutMarker {
    /// Bytes of a marker: a letter, eight digits for the run, eight for the publication.
    static let length = 17

    private let run = String((MonotonicClock.nanoseconds() / 1000) & 0xFFFF_FFFF | 1 << 32, radix: 16).dropFirst()
    private var publication = 0

    /// The bytes of the current publication's marker.
    var text: String { "r\(run)\(10_000_000 + publication % 90_000_000)" }

    /// Goes on to the next publication.
    mutating func advance() { publication += 1 }
}
