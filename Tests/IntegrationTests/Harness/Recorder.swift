import Foundation
import Glibc
import LarderJSON
import Synchronization

/// Appends the messages of clients and agents to the file that the environment variable `LARDER_RECORD` names.
/// `contrib/validate-messages.py` checks that file against the schemas.
///
/// A line that the agent sends to many subscribers is written once. Repetitions refer to it by number, which keeps the
/// record of thousands of subscribers at a few megabytes.
struct Recorder: Sendable {
    private static let file: CInt? = ProcessInfo.processInfo.environment["LARDER_RECORD"].flatMap { path in
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        return descriptor >= 0 ? descriptor : nil
    }
    private static let connections = Atomic<Int>(0)
    /// `numbers` maps the bytes of up to 1,000 lines that are in the file to the numbers of these lines. `last` is the
    /// last number that was assigned.
    private static let numbered = Mutex<(numbers: [[UInt8]: Int], last: Int)>(([:], 0))

    private let file: CInt
    private let connection: String

    /// Starts the record of a new connection. Nil if `LARDER_RECORD` is not set.
    init?() {
        guard let file = Self.file else { return nil }
        self.file = file
        connection = "\(getpid())-\(Self.connections.add(1, ordering: .relaxed).newValue)"
    }

    /// Records a line from the client, without its LF.
    func sent(_ line: some Collection<UInt8>) { note("→", Array(line)) }

    /// Records a line from the agent, without its LF.
    func received(_ line: some Collection<UInt8>) {
        let line = Array(line)
        // Only lines of 200 to 5,000 bytes are numbered. A reference to a shorter line would save little space, and
        // longer lines are rare.
        guard (200...5_000).contains(line.count) else { return note("←", line) }
        Self.numbered.withLock { numbered in
            if let number = numbered.numbers[line] {
                return write("{\"connection\":\"\(connection)\",\"dir\":\"←\",\"same\":\"\(getpid())-\(number)\"}")
            }
            if numbered.numbers.count == 1_000 { numbered.numbers = [:] }
            numbered.last += 1
            numbered.numbers[line] = numbered.last
            // Writes while holding the lock, so that the line is in the file before any reference to it.
            note("←", line, number: numbered.last)
        }
    }

    /// Records that the client stops reading. Requests without a reply are then not an error.
    func abandoned() { note("×", nil) }

    private func note(_ direction: StaticString, _ line: [UInt8]?, number: Int? = nil) {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("connection", connection)
        writer.name("dir")
        writer.string(direction)
        if let line {
            if let text = String(validating: line, as: UTF8.self) {
                writer.member("line", text)
            } else {
                writer.member("base64", Data(line).base64EncodedString())
            }
        }
        if let number { writer.member("number", "\(getpid())-\(number)") }
        writer.endObject()
        write(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// Writes a line with one system call, so that lines of several threads do not mix.
    private func write(_ text: String) {
        let bytes = Array(text.utf8) + [UInt8(ascii: "\n")]
        _ = Glibc.write(file, bytes, bytes.count)
    }
}
