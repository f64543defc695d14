import Foundation
import Glibc
import TestSupport

/// The way to a port, which can be cut, and whose connections can be frozen: open, and silent for ever.
final class Relay {
    let port: Int
    private let target: Int
    private var process: ChildProcess?
    private var frozen: [pid_t] = []

    init(to target: Int) throws {
        port = try LoopbackPort.free()
        self.target = target
        try mend()
    }

    func mend() throws {
        process = try ChildProcess(
            "socat", ["-d", "-d", "TCP-LISTEN:\(port),bind=127.0.0.1,reuseaddr,fork", "TCP:127.0.0.1:\(target)"])
        try process?.waitForLog("listening on")
    }

    /// Ends the connections that there are and refuses further ones.
    func cut() {
        let children = (try? children()) ?? []
        process?.kill()
        for child in children + frozen { kill(child, SIGKILL) }
        frozen = []
    }

    /// Freezes the connections that there are.
    func freeze() throws {
        let children = try children()
        for child in children { kill(child, SIGSTOP) }
        frozen += children
    }

    /// socat has a process for each connection (proc(5)).
    private func children() throws -> [pid_t] {
        guard let process else { return [] }
        let text = try String(contentsOfFile: "/proc/\(process.pid)/task/\(process.pid)/children", encoding: .utf8)
        return text.split(separator: " ").compactMap { pid_t($0) }
    }
}
