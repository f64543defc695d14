import Glibc

/// The lines that come out of a descriptor. It has no thread: whoever wants a line waits for it.
package final class LineReader {
    private let descriptor: Descriptor
    private var buffer: [UInt8] = []
    private var start = 0
    /// Where the search for a line end goes on.
    private var searched = 0
    /// Whether the other end is gone. What it said last may still be in the buffer.
    package private(set) var isAtEnd = false

    package init(_ descriptor: Descriptor) {
        descriptor.makeNonBlocking()
        self.descriptor = descriptor
    }

    /// The next line, without its LF; at the end of input also one that has none. Nothing once all is read.
    package func line(until deadline: Deadline, _ purpose: @autoclosure () -> String) throws -> [UInt8]? {
        while true {
            if let line = nextLine() { return line }
            if isAtEnd { return remainder() }
            try wait(on: descriptor.number, until: deadline, purpose())
            takeWhatIsThere()
        }
    }

    /// A line that has come already.
    package func nextLine() -> [UInt8]? {
        guard let end = lineEnd(from: searched) else {
            searched = buffer.count
            return nil
        }
        let line = Array(buffer[start..<end])
        start = end + 1
        searched = start
        return line
    }

    /// Whether ``nextLine()`` returns a line.
    package var hasLine: Bool { lineEnd(from: searched) != nil }

    private func lineEnd(from start: Int) -> Int? {
        buffer.withUnsafeBytes { bytes in
            guard start < bytes.count, let base = bytes.baseAddress else { return nil }
            return memchr(base + start, CInt(UInt8(ascii: "\n")), bytes.count - start).map {
                UnsafeRawPointer($0) - base
            }
        }
    }

    /// Reads all that has come, without waiting for more.
    package func takeWhatIsThere() {
        if start > 0 {
            buffer.removeSubrange(..<start)
            searched -= start
            start = 0
        }
        while takePiece() {}
    }

    /// Waits until there is something to take, or another descriptor can be written, and takes what is there.
    package func waitToTake(orToWriteTo other: CInt, until deadline: Deadline) throws {
        try waitTogether(with: other, POLLOUT, until: deadline, "somebody to read")
        takeWhatIsThere()
    }

    /// Waits until there is something to take, or another descriptor can be read.
    package func waitToRead(or other: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String) throws {
        try waitTogether(with: other, POLLIN, until: deadline, purpose())
    }

    /// Waits a tenth of a second, or until there is something to take.
    package func waitBriefly() {
        var polled = pollfd(fd: isAtEnd ? -1 : descriptor.number, events: Int16(POLLIN), revents: 0)
        poll(&polled, 1, 100)
    }

    private func waitTogether(
        with other: CInt, _ events: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
    ) throws {
        var polled = [
            pollfd(fd: other, events: Int16(events), revents: 0),
            pollfd(fd: isAtEnd ? -1 : descriptor.number, events: Int16(POLLIN), revents: 0),
        ]
        let count = poll(&polled, 2, deadline.milliseconds)
        if count == 0 { throw HarnessError("waited in vain for \(purpose())") }
        if count < 0, errno != EINTR { throw HarnessError.system("poll") }
    }

    /// Reads once.
    /// - Returns: whether there may be more.
    package func takePiece(_ size: Int = 1 << 16) -> Bool {
        if isAtEnd { return false }
        let piece = [UInt8](unsafeUninitializedCapacity: size) { piece, count in
            count = read(descriptor.number, piece.baseAddress, piece.count)
            if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) { isAtEnd = true }
            count = max(0, count)
        }
        buffer += piece
        return !piece.isEmpty
    }

    /// Waits for the end of input and returns all that is left.
    package func rest(until deadline: Deadline, _ purpose: @autoclosure () -> String) throws -> [UInt8] {
        while !isAtEnd {
            try wait(on: descriptor.number, until: deadline, purpose())
            takeWhatIsThere()
        }
        return remainder() ?? []
    }

    private func remainder() -> [UInt8]? {
        guard start < buffer.count else { return nil }
        defer { start = buffer.count }
        return Array(buffer[start...])
    }
}
