import Foundation
import Glibc
import TestSupport

/// A TCP relay to a port of 127.0.0.1. A test can close its connections, or freeze them so that they stay open and
/// carry no more data.
final class Relay {
    let port: Int
    private let target: Int
    private var process: ChildProcess?
    private var frozen: [pid_t] = []

    init(to target: Int) throws {
        port = try LoopbackPort.free()
        self.target = target
        try start()
    }

    /// Starts to accept connections. Call it again after ``cut()``.
    func start() throws {
        process = try ChildProcess(
            "socat", ["-d", "-d", "TCP-LISTEN:\(port),bind=127.0.0.1,reuseaddr,fork", "TCP:127.0.0.1:\(target)"])
        try process?.waitForLog("listening on")
    }

    /// Closes all connections and refuses new ones.
    func cut() {
        let children = (try? children()) ?? []
        process?.kill()
        for child in children + frozen { kill(child, SIGKILL) }
        frozen = []
    }

    /// Freezes all current connections. New connections still work.
    func freeze() throws {
        let children = try children()
        for child in children { kill(child, SIGSTOP) }
        frozen += children
    }

    /// The child processes of socat, each of which serves one connection. They are read from `/proc` (proc(5)).
    private func children() throws -> [pid_t] {
        guard let process else { return [] }
        let text = try String(contentsOfFile: "/proc/\(process.pid)/task/\(process.pid)/children", encoding: .utf8)
        return text.split(separator: " ").compactMap { pid_t($0) }
    }
}
