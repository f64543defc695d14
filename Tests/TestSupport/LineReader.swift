import Glibc

/// Reads lines from a descriptor. It reads only during calls of its methods, not in the background.
package final class LineReader {
    private let descriptor: Descriptor
    private var buffer: [UInt8] = []
    private var start = 0
    /// The index in the buffer from which the next search for a line end starts.
    private var searched = 0
    /// Whether the end of the input was read. The buffer may still contain lines.
    package private(set) var isAtEnd = false

    package init(_ descriptor: Descriptor) {
        descriptor.makeNonBlocking()
        self.descriptor = descriptor
    }

    /// Waits for the next line and returns it without its LF. The last line may lack the LF. Returns nil at the end of
    /// the input.
    package func line(until deadline: Deadline, _ purpose: @autoclosure () -> String) throws -> [UInt8]? {
        while true {
            if let line = nextLine() { return line }
            if isAtEnd { return remainder() }
            try wait(on: descriptor.number, until: deadline, purpose())
            readAvailable()
        }
    }

    /// Returns the next buffered line, or nil if no complete line is buffered.
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

    /// Whether a complete line is buffered, so that ``nextLine()`` would return it.
    package var hasLine: Bool { lineEnd(from: searched) != nil }

    private func lineEnd(from start: Int) -> Int? {
        buffer.withUnsafeBytes { bytes in
            guard start < bytes.count, let base = bytes.baseAddress else { return nil }
            return memchr(base + start, CInt(UInt8(ascii: "\n")), bytes.count - start).map {
                UnsafeRawPointer($0) - base
            }
        }
    }

    /// Reads all available input into the buffer, without waiting for more.
    package func readAvailable() {
        if start > 0 {
            buffer.removeSubrange(..<start)
            searched -= start
            start = 0
        }
        while readChunk() {}
    }

    /// Waits until input is available or another descriptor is writable, and reads all available input.
    package func waitAndRead(orUntilWritable other: CInt, until deadline: Deadline) throws {
        try waitForInput(or: other, POLLOUT, until: deadline, "a process to read its input")
        readAvailable()
    }

    /// Waits until input is available or another descriptor is readable.
    package func waitForInput(
        orReadable other: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
    ) throws {
        try waitForInput(or: other, POLLIN, until: deadline, purpose())
    }

    /// Waits until input is available, at most 0.1 s.
    package func waitBriefly() {
        var polled = pollfd(fd: isAtEnd ? -1 : descriptor.number, events: Int16(POLLIN), revents: 0)
        poll(&polled, 1, 100)
    }

    private func waitForInput(
        or other: CInt, _ events: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
    ) throws {
        var polled = [
            pollfd(fd: other, events: Int16(events), revents: 0),
            pollfd(fd: isAtEnd ? -1 : descriptor.number, events: Int16(POLLIN), revents: 0),
        ]
        let count = poll(&polled, 2, deadline.milliseconds)
        if count == 0 { throw HarnessError.timeout(purpose()) }
        if count < 0, errno != EINTR { throw HarnessError.system("poll") }
    }

    /// Reads at most `maxBytes` into the buffer, without waiting.
    /// - Returns: true if bytes were read, in which case more may be available
    package func readChunk(_ maxBytes: Int = 1 << 16) -> Bool {
        if isAtEnd { return false }
        let chunk = [UInt8](unsafeUninitializedCapacity: maxBytes) { chunk, count in
            count = read(descriptor.number, chunk.baseAddress, chunk.count)
            if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) { isAtEnd = true }
            count = max(0, count)
        }
        buffer += chunk
        return !chunk.isEmpty
    }

    /// Waits for the end of the input and returns all unread bytes.
    package func readToEnd(until deadline: Deadline, _ purpose: @autoclosure () -> String) throws -> [UInt8] {
        while !isAtEnd {
            try wait(on: descriptor.number, until: deadline, purpose())
            readAvailable()
        }
        return remainder() ?? []
    }

    private func remainder() -> [UInt8]? {
        guard start < buffer.count else { return nil }
        defer { start = buffer.count }
        return Array(buffer[start...])
    }
}
