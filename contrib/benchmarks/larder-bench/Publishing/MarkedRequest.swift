/// A request whose value begins with a marker that changes with each publication.
///
/// The marker is overwritten in place, so that a publication allocates no memory.
struct MarkedRequest {
    /// The marker of the current publication.
    private(set) var marker: FanoutMarker
    private let bytes: PreparedBytes
    private let offsets: [Int]

    /// Creates a request.
    /// - Parameters:
    ///   - valueBytes: the length of the value, at least ``FanoutMarker/length``
    ///   - request: returns the request that publishes a value
    init(valueBytes: Int, _ request: (String) -> [UInt8]) {
        let marker = FanoutMarker()
        let request = request(marker.text + String(repeating: "x", count: valueBytes - FanoutMarker.length))
        self.marker = marker
        bytes = PreparedBytes(request)
        offsets = ReplyText.offsets(of: marker.text, in: request)
    }

    /// The bytes to send, valid until the next call of ``advance()``.
    var buffer: UnsafeRawBufferPointer { bytes.buffer }

    /// Writes the marker of the next publication into the request and returns it.
    @discardableResult
    mutating func advance() -> [UInt8] {
        marker.advance()
        let text = Array(marker.text.utf8)
        for offset in offsets {
            UnsafeMutableRawBufferPointer(rebasing: bytes.memory[offset...]).copyBytes(from: text)
        }
        return text
    }
}

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
