import Glibc

/// Splits a stream of bytes into lines. It performs no I/O and calls nothing: the reader of the stream pulls each line
/// with ``next(in:at:)``.
///
/// A line ends at LF; a CR before it is dropped; blank lines (nothing but spaces, tabs and CR) are ignored. The bytes
/// after the last LF are a line too when the input ends. A line over ``maximumLineBytes`` is reported once, as soon as
/// it is known to be too long, and skipped up to its LF. However the input is split, the same lines come out.
///
/// A line that arrives whole is returned as a part of the input, without a copy. Only a line that spans several
/// arrivals is assembled. No byte is read twice.
public struct LineFramer: Sendable {
    /// A line without its line end.
    public enum Line {
        /// A part of the input, valid as long as the input is.
        case whole(UnsafeRawBufferPointer)
        /// A line that spanned several arrivals. ``reuse(_:)`` takes its memory back.
        case assembled([UInt8])
        /// A line longer than the limit began; its bytes are being dropped.
        case tooLong
    }

    /// Room for longer lines grows in fewer steps, mostly in one. Memory that is not written to is not resident.
    private static let longLineBytes = 32 * 1024
    private static let roomForLongLine = 1 << 20
    /// Larger buffers of assembled lines are freed.
    private static let maxReusedBytes = 4096

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

    /// Returns the next line that ends in the input.
    /// - Parameter offset: where to continue in the input. Advances behind the line, or to the end of the input.
    /// - Returns: nil if the rest of the input completes no line. The rest is then held.
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
    /// - Returns: the last line, if bytes followed the last LF.
    public mutating func finish() -> Line? {
        if isSkipping {
            isSkipping = false
            return nil
        }
        let line = partial.isEmpty ? nil : assembledLine()
        partial = []
        return line
    }

    /// Takes back the memory of an assembled line that was served.
    public mutating func reuse(_ buffer: consuming [UInt8]) {
        guard partial.isEmpty, buffer.capacity <= Self.maxReusedBytes else { return }
        buffer.removeAll(keepingCapacity: true)
        partial = buffer
    }

    /// Drops the unfinished line that is held, and the bytes of it that are still to come. It is not reported.
    public mutating func dropUnfinishedLine() {
        if partial.isEmpty { return }
        isSkipping = true
        partial = []
    }

    /// Ends the current line with its last piece.
    /// - Returns: nil if the line is blank or was reported as too long.
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

    /// Holds a piece of a line whose end has not arrived.
    private mutating func hold(_ piece: UnsafeRawBufferPointer) -> Line? {
        if isSkipping { return nil }
        // One byte more than the limit may be the CR of CRLF.
        let total = partial.count + piece.count
        let isOver = total > maximumLineBytes + 1 || (total == maximumLineBytes + 1 && piece.last != UInt8(ascii: "\r"))
        guard isOver else {
            if total > partial.capacity, total > Self.longLineBytes {
                // Doubling the room each time would copy the whole line again and again.
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
