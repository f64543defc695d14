import Foundation
import LarderJSON

/// An agent that a measurement starts and stops itself, in a directory that outlives it.
final class MeasuredAgent {
    let directory: String
    let process: pid_t
    /// From before its start until it said that it is ready (sd_notify(3)).
    let readyNanoseconds: UInt64

    static func socket(in directory: String) -> String { directory + "/sock" }

    /// Where its images are.
    static func images(in directory: String) -> String { directory + "/cache" }

    /// Writes the settings that the next start, or reload, finds.
    static func writeSettings(in directory: String, maximumImages: Int) throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let settings = """
            {
              socket: { path: "\(socket(in: directory))" },
              state: { directory: "\(directory)/state" },
              cache: { directory: "\(images(in: directory))" },
              images: {
                maximumImages: \(maximumImages), minimumFreeBytes: 0, allowNetworks: ["127.0.0.1/32"],
                concurrency: 68, concurrencyPerOrigin: 66, concurrencyPerUser: 68,
              },
            }
            """
        try Data(settings.utf8).write(to: URL(fileURLWithPath: directory + "/settings.json5"))
    }

    /// Starts an agent and waits until it is ready.
    init(_ program: String, in directory: String) throws {
        self.directory = directory
        let notify = try NotifyReceiver(directory + "/notify")
        let words = [program, "--settings", directory + "/settings.json5", "--log-level", "warning"]
        let variables = ["NOTIFY_SOCKET=\(notify.path)", "HOME=\(directory)", "PATH=/usr/bin:/bin"]
        let start = MonotonicClock.nanoseconds()
        process = try Self.spawn(words, variables)
        try notify.waitUntilReady(process)
        readyNanoseconds = MonotonicClock.nanoseconds() &- start
    }

    var peer: Peer { Peer(kind: .larder, socketPath: Self.socket(in: directory)) }

    /// Has it read its settings again. When it is done with that is seen by what it does.
    func reload() { kill(process, SIGHUP) }

    /// Ends it as a service manager does.
    func stop() throws {
        kill(process, SIGTERM)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else { throw BenchError(.unexpected, "larderd ended with status \(status)") }
    }

    /// What `agent.stats` says of its images.
    func images() throws -> JSONValue {
        let reply = try JSONValue(parsing: ControlConnection(to: peer).ask(LarderRequest.statistics)[0])
        guard let images = reply["result"]?["images"], !images.isNull else {
            throw BenchError(.unsuitable, "larder: agent.stats says nothing of images")
        }
        return images
    }

    private static func spawn(_ words: [String], _ variables: [String]) throws -> pid_t {
        let arguments = words.map { strdup($0) } + [nil]
        let environment = variables.map { strdup($0) } + [nil]
        defer { for text in arguments + environment { free(text) } }
        var process: pid_t = 0
        let failure = posix_spawn(&process, words[0], nil, nil, arguments, environment)
        guard failure == 0 else { throw BenchError.system("start \(words[0])", errno: failure) }
        return process
    }
}

/// The service manager's end of sd_notify(3).
private final class NotifyReceiver {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        unlink(path)
        descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw BenchError(.unsuitable, "choose a shorter --directory: \(path) is too long for a socket")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else { throw BenchError.system("bind \(path)") }
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    func waitUntilReady(_ process: pid_t) throws {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw BenchError(.silent, "larderd (\(process)) is not ready after a minute") }
            let text = String(decoding: buffer[..<count], as: UTF8.self)
            if text.split(separator: "\n").contains("READY=1") { return }
        }
    }
}
