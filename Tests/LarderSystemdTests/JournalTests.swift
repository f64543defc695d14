import Foundation
import Glibc
import Logging
import Testing

@testable import LarderSystemd

@Suite("Journal")
struct JournalTests {
    static func event(_ message: Logger.Message, _ level: Logger.Level = .info, error: (any Error)? = nil) -> LogEvent {
        LogEvent(
            level: level, message: message, error: error,
            metadata: ["namespace": "default", "peerPID": "\(42)"], source: nil, file: "LarderServer/Session.swift",
            function: "read()", line: 7)
    }

    static func fields(_ entry: JournalEntry) -> [String] {
        entry.ranges.map { String(decoding: entry.bytes[$0], as: UTF8.self) }
    }

    @Test("a log event becomes journal fields, with its metadata sorted and prefixed")
    func fields() {
        let journal = JournalOutput(label: "server", identifier: "larderd", fieldPrefix: "LARDER_")
        var handler = ServiceLogHandler(.journal(journal))
        handler[metadataKey: "namespace"] = "overridden"
        handler[metadataKey: "host"] = "a"
        handler.metadataProvider = .init { ["request.id": "9"] }
        let event = Self.event("two\nlines", .warning)
        let members = LogMetadata.merged(handler.metadata, handler.metadataProvider, event)
        #expect(
            Self.fields(journal.entry(for: event, members)) == [
                "MESSAGE=two\nlines", "PRIORITY=4", "SYSLOG_IDENTIFIER=larderd",
                "CODE_FILE=LarderServer/Session.swift", "CODE_LINE=7", "CODE_FUNC=read()", "LARDER_LOGGER=server",
                "LARDER_HOST=a", "LARDER_NAMESPACE=default", "LARDER_PEER_PID=42", "LARDER_REQUEST_ID=9",
            ])
    }

    @Test("a logged error becomes journal fields with its message and type")
    func error() {
        let journal = JournalOutput(label: "", identifier: "larderd", fieldPrefix: "LARDER_")
        let event = Self.event("x", error: SystemdError("why"))
        let fields = Self.fields(journal.entry(for: event, LogMetadata.merged([:], nil, event)))
        #expect(fields.contains("LARDER_ERROR_MESSAGE=why"))
        #expect(fields.contains("LARDER_ERROR_TYPE=LarderSystemd.SystemdError"))
        #expect(!fields.contains { $0.hasPrefix("LARDER_LOGGER") })
    }

    @Test(
        "a metadata key becomes a valid field name",
        arguments: [
            ("namespace", "LARDER_NAMESPACE"), ("peerPID", "LARDER_PEER_PID"), ("http2Stream", "LARDER_HTTP2_STREAM"),
            ("request.id", "LARDER_REQUEST_ID"), ("a b\n=c", "LARDER_A_B__C"), ("größe", "LARDER_GR__E"),
            ("_MACHINE_ID", "LARDER__MACHINE_ID"),
            (String(repeating: "x", count: 100), "LARDER_" + String(repeating: "X", count: 57)),
        ])
    func fieldName(key: String, name: String) {
        #expect(JournalEntry.fieldName(key, prefix: "LARDER_") == name)
    }

    @Test("a field name does not begin with an underscore or a digit, and is not empty")
    func fieldNameEdges() {
        #expect(JournalEntry.fieldName("_uid", prefix: "") == "UID")
        #expect(JournalEntry.fieldName("1st", prefix: "") == "ST")
        #expect(JournalEntry.fieldName("", prefix: "LARDER_") == nil)
        #expect(JournalEntry.fieldName("__", prefix: "") == nil)
    }

    @Test("log levels become syslog priorities")
    func priorities() {
        #expect(Logger.Level.allCases.map(JournalOutput.priority) == [7, 7, 6, 5, 4, 3, 2])
    }

    @Test("JOURNAL_STREAM matches a descriptor only if it names the device and inode of that descriptor")
    func journalStream() throws {
        let (reading, writing) = try pipe()
        defer {
            close(reading)
            close(writing)
        }
        var status = stat()
        #expect(fstat(writing, &status) == 0)
        #expect(JournalStream.matches(writing, "\(status.st_dev):\(status.st_ino)"))
        #expect(!JournalStream.matches(writing, "\(status.st_dev):\(status.st_ino + 1)"))
        #expect(!JournalStream.matches(writing, "\(status.st_ino)"))
        #expect(!JournalStream.matches(writing, "\(status.st_dev):\(status.st_ino):"))
        #expect(!JournalStream.matches(writing, ""))
        #expect(!JournalStream.matches(-1, "\(status.st_dev):\(status.st_ino)"))
    }

    @Test("the journal handler is used only if standard error is the journal stream")
    func choice() async {
        await #expect(processExitsWith: .success) {
            func isJournal() -> Bool {
                let handler = ServiceLogHandler(label: "x", identifier: "larderd", fieldPrefix: "LARDER_")
                return if case .journal = handler.output { true } else { false }
            }
            unsetenv("JOURNAL_STREAM")
            #expect(!isJournal())
            dup2(socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0), STDERR_FILENO)
            var status = stat()
            fstat(STDERR_FILENO, &status)
            setenv("JOURNAL_STREAM", "\(status.st_dev):\(status.st_ino)", 1)
            #expect(isJournal())
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO)
            #expect(!isJournal())
        }
    }

    /// The socket of journald has a fixed path in /run. The test therefore runs itself again in a mount namespace with
    /// a separate /run.
    @Test(
        "an entry is sent to journald in the native protocol, or to standard error as text if that fails",
        .enabled(
            if: Rerun.succeeds(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/run"]),
            "needs user namespaces"))
    func nativeProtocol() throws {
        guard Rerun.isInside else {
            let (passed, output) = try Rerun(
                "JournalTests/nativeProtocol",
                through: ["unshare", "-rm", "sh", "-c", "mount -t tmpfs tmpfs /run && exec \"$@\"", "sh"]
            ).finish()
            #expect(passed, "\(output)")
            #expect(output.contains("\n<4>refused\\n<0>by journald namespace=default peerPID=42\n"), "\(output)")
            return
        }
        try FileManager.default.createDirectory(atPath: "/run/systemd/journal", withIntermediateDirectories: true)
        // The socket exists, but no process listens on it, so the entry must be written to standard error.
        close(try listeningSocket(at: "/run/systemd/journal/socket"))
        let handler = ServiceLogHandler(
            .journal(JournalOutput(label: "", identifier: "larderd", fieldPrefix: "LARDER_")))
        handler.log(event: Self.event("refused\n<0>by journald", .warning))
        unlink("/run/systemd/journal/socket")

        let journal = try DatagramReceiver.bound(to: "/run/systemd/journal/socket")
        defer { close(journal) }
        handler.log(event: Self.event("two\nPRIORITY=0"))
        // Native protocol: a value with a line feed is sent as name, LF, length (8 bytes, little-endian), value, LF.
        let text = DatagramReceiver.receive(journal)
        #expect(text.contains("MESSAGE\n\u{e}\0\0\0\0\0\0\0two\nPRIORITY=0\nPRIORITY=6\n"), "\(text)")
        #expect(text.contains("SYSLOG_IDENTIFIER=larderd\n"))
        #expect(text.contains("CODE_FUNC=read()\n"))
        #expect(text.contains("LARDER_NAMESPACE=default\n"))
    }

    private func pipe() throws -> (CInt, CInt) {
        var ends: [CInt] = [-1, -1]
        try #require(Glibc.pipe(&ends) == 0)
        return (ends[0], ends[1])
    }
}
