import Glibc

/// Cuts a stream of bytes into lines, without any input or output of its own.
///
/// A line ends at LF; a CR before it is dropped; blank lines (nothing but spaces, tabs and CR) are ignored. What is
/// left without an LF when the input ends is a line too. A line over ``maximumLineBytes`` is reported once, as soon as
/// it is known to be too long, and skipped up to its LF. However the input is split, the same lines come out.
///
/// A line that arrives whole is handed on as a part of the input, without a copy; only a line that is spread over
/// several arrivals is gathered. No byte is looked at twice.
public struct LineFramer: Sendable {
    /// What the framer found.
    public enum Output {
        /// A line without its line end. The bytes are valid during the call only.
        case line(UnsafeRawBufferPointer)
        /// A line longer than the limit began; its bytes are being dropped.
        case tooLong
    }

    /// Room for longer lines grows in fewer steps, mostly in one: what is not written to is no memory yet.
    private static let long = 32 * 1024
    private static let roomForLong = 1 << 20

    /// The longest line in bytes, its line end not counted.
    public let maximumLineBytes: Int
    private var partial: [UInt8] = []
    private var isSkipping = false

    /// Makes a framer at the start of a stream.
    public init(maximumLineBytes: Int = 1 << 20) {
        self.maximumLineBytes = maximumLineBytes
    }

    /// How many bytes of an unfinished line are held.
    public var pendingBytes: Int { partial.count }

    /// Takes the next bytes and hands every line that they complete to `body`, in order.
    /// - Parameter body: answers whether to go on; where it says no, the rest of the input is not looked at, and the
    ///   number of bytes taken tells the caller where to resume.
    /// - Returns: how many bytes of the input were taken: all of them unless `body` said no.
    public mutating func receive(_ input: UnsafeRawBufferPointer, _ body: (Output) -> Bool) -> Int {
        var start = 0
        while start < input.count {
            guard let end = Self.lineFeed(in: input, from: start) else {
                keep(UnsafeRawBufferPointer(rebasing: input[start...]), body)
                return input.count
            }
            let piece = UnsafeRawBufferPointer(rebasing: input[start..<end])
            start = end + 1
            if !finishLine(with: piece, body) { return start }
        }
        return start
    }

    /// Says that the input ended: what is held becomes the last line.
    public mutating func finish(_ body: (Output) -> Bool) {
        _ = finishLine(with: UnsafeRawBufferPointer(start: nil, count: 0), body)
        partial = []
    }

    /// Ends the current line with its last piece and hands it on.
    private mutating func finishLine(with piece: UnsafeRawBufferPointer, _ body: (Output) -> Bool) -> Bool {
        if isSkipping {
            isSkipping = false
            return true
        }
        if partial.isEmpty { return deliver(piece, body) }
        partial.append(contentsOf: piece)
        defer {
            // A long line's buffer is given back; a short one's serves the next line.
            partial.removeAll(keepingCapacity: partial.capacity <= 4096)
        }
        return partial.withUnsafeBytes { deliver($0, body) }
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer, _ body: (Output) -> Bool) -> Bool {
        var line = bytes
        if line.last == UInt8(ascii: "\r") { line = UnsafeRawBufferPointer(rebasing: line.dropLast()) }
        if line.count > maximumLineBytes { return body(.tooLong) }
        if line.first.map(Self.isBlank) ?? true, line.allSatisfy(Self.isBlank) { return true }
        return body(.line(line))
    }

    /// Holds a piece of a line whose end has not come yet.
    private mutating func keep(_ piece: UnsafeRawBufferPointer, _ body: (Output) -> Bool) {
        if isSkipping { return }
        // One byte more than the limit may be the CR of CRLF.
        let total = partial.count + piece.count
        let isOver = total > maximumLineBytes + 1 || (total == maximumLineBytes + 1 && piece.last != UInt8(ascii: "\r"))
        guard isOver else {
            if total > partial.capacity, total > Self.long {
                // Twice the room each time would be to copy all of it again and again.
                partial.reserveCapacity(min(maximumLineBytes + 2, max(total * 4, Self.roomForLong)))
            }
            partial.append(contentsOf: piece)
            return
        }
        isSkipping = true
        partial = []
        _ = body(.tooLong)
    }

    /// Drops the unfinished line that is held, and what is still to come of it, without a word.
    public mutating func dropUnfinishedLine() {
        if partial.isEmpty { return }
        isSkipping = true
        partial = []
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

    private static func lineFeed(in input: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = input.baseAddress, let found = memchr(base + start, 0x0A, input.count - start) else {
            return nil
        }
        return UnsafeRawPointer(found) - base
    }
}
