import Foundation
import TestSupport

/// tinyproxy on a free port of 127.0.0.1.
final class Tinyproxy {
    let port: Int
    private let process: ChildProcess

    /// Starts the proxy and waits until it accepts connections.
    /// - Parameter lines: Additional lines of tinyproxy.conf(5). Without `ConnectPort`, tunnels to all ports are allowed.
    init(in directory: String, _ lines: String = "", timeout: Int = 600) throws {
        // tinyproxy does not accept port 0, and another process may take the free port first.
        for _ in 0..<10 {
            let port = try LoopbackPort.free()
            let path = "\(directory)/tinyproxy-\(port).conf"
            try "Port \(port)\nListen 127.0.0.1\nTimeout \(timeout)\nMaxClients 50\nLogLevel Info\n\(lines)\n".write(
                toFile: path, atomically: true, encoding: .utf8)
            // The log of tinyproxy in the foreground is its standard output.
            let process = try ChildProcess("sh", ["-c", #"exec tinyproxy -d -c "$0" >&2"#, path])
            do {
                try process.waitForLog("Accepting connections")
                (self.port, self.process) = (port, process)
                return
            } catch {
                process.kill()
            }
        }
        throw HarnessError("tinyproxy did not start")
    }

    var url: String { "http://127.0.0.1:\(port)" }

    /// Waits until the proxy has got a request for a tunnel to a host and port.
    func waitForTunnel(to target: String) throws { try process.waitForLog("CONNECT \(target) HTTP/1.1") }

    /// The number of requests for a tunnel so far.
    var tunnels: Int { process.logText.split(separator: "\n").count { $0.contains(": CONNECT ") } }

    func stop() { process.kill() }
}
