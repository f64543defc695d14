import Foundation
import JSON
import Synchronization

/// Keeps a record of what clients and agent said to each other, in the file that the environment variable
/// `LARDER_RECORD` names; `contrib/validate-messages.py` checks it against the schemas.
struct Recorder: Sendable {
    private static let file: CInt? = ProcessInfo.processInfo.environment["LARDER_RECORD"].flatMap { path in
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        return descriptor >= 0 ? descriptor : nil
    }
    private static let connections = Atomic<Int>(0)

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
    func received(_ line: some Collection<UInt8>) { note("←", Array(line)) }

    /// The client does not read on: what is not answered yet may stay so.
    func abandoned() { note("×", nil) }

    private func note(_ direction: StaticString, _ line: [UInt8]?) {
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
        writer.endObject()
        let bytes = writer.bytes + [UInt8(ascii: "\n")]
        // One call for each line: lines of several threads do not mix.
        _ = write(file, bytes, bytes.count)
    }
}
