import CLinuxShims
import LarderClientCore
import Glibc

/// How a program ended, and its output.
struct CapturedProgram: Sendable {
    let end: ProgramEnd
    /// Standard output and standard error, in the order in which they were written.
    let text: String

    /// The lines of the output that are not empty.
    var lines: [String] { text.split(separator: "\n").map(String.init) }

    /// The maximum length of the output in bytes.
    private static let maxBytes = 1 << 20

    /// Runs a program in the C locale, so that its output can be parsed.
    /// - Parameter limit: the time after which the program is killed.
    /// - Returns: nil if the program cannot be started, took too long, or wrote more than ``maxBytes``.
    static func run(_ words: [String], limit: Duration = .seconds(5)) async -> CapturedProgram? {
        var variables = EnvironmentVariables()
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("SYSTEMD_COLORS", "0"), ("SYSTEMD_PAGER", "")] {
            variables.append(name, value)
        }
        let program = Program(words: words, variables: variables)
        return await onOwnThread { capture(program, limit) }
    }

    private static func capture(_ program: Program, _ limit: Duration) -> CapturedProgram? {
        var ends: [CInt] = [0, 0]
        // The pipe is close-on-exec, so that no other child inherits its write end. Reading from the pipe then reaches
        // the end of input when this child ends.
        guard larder_pipe(&ends, false) == 0 else { return nil }
        defer { close(ends[0]) }
        let child = try? program.start(in: .shared, output: ends[1], errors: ends[1])
        close(ends[1])
        guard let child else { return nil }
        let text = read(ends[0], until: ContinuousClock.now + limit)
        if text == nil { kill(child, SIGKILL) }
        var status: CInt = 0
        var ended: pid_t
        repeat { ended = waitpid(child, &status, 0) } while ended < 0 && errno == EINTR
        guard let text, ended == child else { return nil }
        return CapturedProgram(end: ProgramEnd(waitStatus: status), text: text)
    }

    /// Reads until the end of input. Returns nil if the input does not end in time or is longer than ``maxBytes``.
    private static func read(_ descriptor: CInt, until end: ContinuousClock.Instant) -> String? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 14)
        while bytes.count <= maxBytes {
            let left = ContinuousClock.now.duration(to: end).components
            let milliseconds = left.seconds * 1000 + left.attoseconds / 1_000_000_000_000_000
            var input = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = poll(&input, 1, CInt(clamping: max(0, milliseconds)))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { return nil }
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
        return nil
    }
}
