import Glibc

/// Splits a stream of bytes into lines. Performs no I/O: its caller reads the stream and passes the bytes to
/// ``next(in:at:)``.
///
/// A line ends at LF. A CR before the LF is dropped. Blank lines (only spaces, tabs and CR) are ignored. When the input
/// ends, bytes after the last LF form a line. A line longer than ``maximumLineBytes`` is reported once, as soon as the
/// limit is exceeded, and then skipped up to its LF. The lines do not depend on how the input is split into pieces.
///
/// A line that arrives in one piece is returned as a part of the input, without a copy. Only a line that spans several
/// pieces is copied into a buffer. Each byte is searched for LF once.
public struct LineFramer: Sendable {
    /// A line without its line end.
    public enum Line {
        /// A part of the input. The pointer is valid as long as the memory of the input.
        case whole(UnsafeRawBufferPointer)
        /// A line that spanned several pieces of input. After use, pass the array to ``reuse(_:)``, so that a later
        /// line can use its memory.
        case assembled([UInt8])
        /// A line that is longer than the limit. Its remaining bytes are dropped.
        case tooLong
    }

    /// When an incomplete line becomes longer than `longLineBytes`, its buffer grows to at least `roomForLongLine`
    /// bytes, so that it rarely grows again. Memory that is reserved but not written is not resident.
    private static let longLineBytes = 32 * 1024
    private static let roomForLongLine = 1 << 20
    /// Buffers whose capacity exceeds this number of bytes are freed instead of reused.
    private static let maxReusedBytes = 4096

    /// The maximum length of a line in bytes, without its line end.
    public let maximumLineBytes: Int
    private var partial: [UInt8] = []
    private var isSkipping = false

    /// Creates a framer at the start of a stream.
    public init(maximumLineBytes: Int = 1 << 20) {
        self.maximumLineBytes = maximumLineBytes
    }

    /// The number of buffered bytes of an incomplete line.
    public var pendingBytes: Int { partial.count }

    /// Returns the next line that ends in the input.
    /// - Parameters:
    ///   - input: the bytes that were received
    ///   - offset: the position in the input from which to continue. It is moved behind the line, or to the end of the
    ///     input.
    /// - Returns: the line; nil if the rest of the input does not complete a line. The framer then keeps the rest for
    ///   the next call.
    public mutating func next(in input: UnsafeRawBufferPointer, at offset: inout Int) -> Line? {
        while offset < input.count {
            guard let end = Self.lineFeed(in: input, from: offset) else {
                let rest = UnsafeRawBufferPointer(rebasing: input[offset...])
                offset = input.count
                return hold(rest)
            }
            let piece = UnsafeRawBufferPointer(rebasing: input[offset..<end])
            offset = end + 1
            if let line = endLine(with: piece) { return line }
        }
        return nil
    }

    /// Ends the input.
    /// - Returns: the last line, if bytes followed the last LF
    public mutating func finish() -> Line? {
        if isSkipping {
            isSkipping = false
            return nil
        }
        let line = partial.isEmpty ? nil : assembledLine()
        partial = []
        return line
    }

    /// Reuses the memory of an assembled line for another line.
    public mutating func reuse(_ buffer: consuming [UInt8]) {
        guard partial.isEmpty, buffer.capacity <= Self.maxReusedBytes else { return }
        buffer.removeAll(keepingCapacity: true)
        partial = buffer
    }

    /// Drops the incomplete line, including its bytes that have not arrived yet. The line is not reported.
    public mutating func dropUnfinishedLine() {
        if partial.isEmpty { return }
        isSkipping = true
        partial = []
    }

    /// Completes the current line.
    /// - Returns: the line; nil if the line is blank or was already reported as too long
    private mutating func endLine(with piece: UnsafeRawBufferPointer) -> Line? {
        if isSkipping {
            isSkipping = false
            return nil
        }
        if partial.isEmpty { return wholeLine(piece) }
        partial.append(contentsOf: piece)
        return assembledLine()
    }

    private func wholeLine(_ bytes: UnsafeRawBufferPointer) -> Line? {
        var line = bytes
        if line.last == UInt8(ascii: "\r") { line = UnsafeRawBufferPointer(rebasing: line.dropLast()) }
        if line.count > maximumLineBytes { return .tooLong }
        return Self.isBlank(line) ? nil : .whole(line)
    }

    private mutating func assembledLine() -> Line? {
        var line: [UInt8] = []
        swap(&line, &partial)
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        let isTooLong = line.count > maximumLineBytes
        if isTooLong || line.withUnsafeBytes(Self.isBlank) {
            reuse(line)
            return isTooLong ? .tooLong : nil
        }
        return .assembled(line)
    }

    /// Buffers a piece of an incomplete line.
    private mutating func hold(_ piece: UnsafeRawBufferPointer) -> Line? {
        if isSkipping { return nil }
        // One byte more than the limit is accepted if it is a CR, because the CR may belong to the line end (CRLF).
        let total = partial.count + piece.count
        let isOver = total > maximumLineBytes + 1 || (total == maximumLineBytes + 1 && piece.last != UInt8(ascii: "\r"))
        guard isOver else {
            if total > partial.capacity, total > Self.longLineBytes {
                // The capacity grows to four times the size or more, up to the limit. If it only doubled, a long line
                // would be copied more often.
                partial.reserveCapacity(min(maximumLineBytes + 2, max(total * 4, Self.roomForLongLine)))
            }
            partial.append(contentsOf: piece)
            return nil
        }
        isSkipping = true
        partial = []
        return .tooLong
    }

    private static func isBlank(_ line: UnsafeRawBufferPointer) -> Bool {
        (line.first.map(isBlank) ?? true) && line.allSatisfy(isBlank)
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

    private static func lineFeed(in input: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = input.baseAddress, let found = memchr(base + start, 0x0A, input.count - start) else {
            return nil
        }
        return UnsafeRawPointer(found) - base
    }
}
