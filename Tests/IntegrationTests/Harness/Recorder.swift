import Foundation
import Glibc
import LarderJSON
import Synchronization

/// Keeps a record of what clients and agent said to each other, in the file that the environment variable
/// `LARDER_RECORD` names; `contrib/validate-messages.py` checks it against the schemas.
///
/// What the agent says to many subscribers in the same words is written down once, and then referred to by its number:
/// a crowd's record stays a few megabytes, and nobody needs to be left out of it.
struct Recorder: Sendable {
    private static let file: CInt? = ProcessInfo.processInfo.environment["LARDER_RECORD"].flatMap { path in
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        return descriptor >= 0 ? descriptor : nil
    }
    private static let connections = Atomic<Int>(0)
    /// The numbers of lines that may come again.
    private static let numbered = Mutex<(numbers: [[UInt8]: Int], last: Int)>(([:], 0))

    private let file: CInt
    private let connection: String

    /// A record of a new connection; nil where none is kept.
    init?() {
        guard let file = Self.file else { return nil }
        self.file = file
        connection = "\(getpid())-\(Self.connections.add(1, ordering: .relaxed).newValue)"
    }

    /// A line from the client, without its LF.
    func sent(_ line: some Collection<UInt8>) { note("→", Array(line)) }

    /// A line from the agent, without its LF.
    func received(_ line: some Collection<UInt8>) {
        let line = Array(line)
        // To refer to a shorter one would save nothing; longer ones are few.
        guard (200...5_000).contains(line.count) else { return note("←", line) }
        Self.numbered.withLock { numbered in
            if let number = numbered.numbers[line] {
                return write("{\"connection\":\"\(connection)\",\"dir\":\"←\",\"same\":\"\(getpid())-\(number)\"}")
            }
            if numbered.numbers.count == 1_000 { numbered.numbers = [:] }
            numbered.last += 1
            numbered.numbers[line] = numbered.last
            // Within the lock, so that nobody refers to what is not there yet.
            note("←", line, number: numbered.last)
        }
    }

    /// The client does not read on: what is not answered yet may stay so.
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

    /// One call for each line: lines of several threads do not mix.
    private func write(_ text: String) {
        let bytes = Array(text.utf8) + [UInt8(ascii: "\n")]
        _ = Glibc.write(file, bytes, bytes.count)
    }
}
