import CLinuxShims
import Foundation
import TestSupport
import Testing

/// A `larderd` process with a directory of its own, which ends and is removed with the test.
final class TemporaryAgent: Sendable {
    /// Where its socket, state and settings are.
    let directory: String
    /// The path of its socket.
    var socket: String { "\(directory)/larder.sock" }
    /// What a client's environment needs to find it.
    var environment: [String: String] { ["LARDER_SOCKET": socket, "PATH": "/usr/bin:/bin"] }

    private init(directory: String) { self.directory = directory }

    /// Runs `body` beside an agent that serves.
    static func with<R>(settings: String? = nil, _ body: (TemporaryAgent) async throws -> R) async throws -> R {
        try await withDirectory { agent in
            if let settings { try agent.write(settings, to: "settings.json") }
            let process = try await agent.start()
            do {
                let result = try await body(agent)
                await agent.stop(process)
                return result
            } catch {
                await agent.stop(process)
                throw error
            }
        }
    }

    /// Runs `body` with a directory for an agent that it starts and stops itself.
    static func withDirectory<R>(_ body: (TemporaryAgent) async throws -> R) async throws -> R {
        var template = Array("/tmp/larder-agent-XXXXXX".utf8CString)
        let name = try #require(mkdtemp(&template))
        let directory = String(cString: name)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        return try await body(TemporaryAgent(directory: directory))
    }

    /// Writes a file of the agent's directory.
    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }

    /// Starts the agent and waits until it says that it serves (sd_notify(3)).
    func start() async throws -> SpawnedProgram {
        let notifications = try NotificationSocket("\(directory)/notify.sock")
        if !FileManager.default.fileExists(atPath: "\(directory)/settings.json") {
            try write("{}", to: "settings.json")
        }
        // Without a directory of its own the host layer would be that of the machine that runs the tests.
        try FileManager.default.createDirectory(
            atPath: "\(directory)/larder/config.d", withIntermediateDirectories: true)
        let process = try SpawnedProgram(
            "larderd",
            [
                "--socket", socket, "--state-directory", "\(directory)/state",
                "--settings", "\(directory)/settings.json",
            ],
            environment: [
                "NOTIFY_SOCKET": notifications.path, "HOME": directory, "XDG_RUNTIME_DIR": directory,
                "CONFIGURATION_DIRECTORY": "\(directory)/larder", "CACHE_DIRECTORY": "\(directory)/cache",
            ])
        try await notifications.ready()
        return process
    }

    /// Stops the agent as the service manager does, and waits for its end.
    func stop(_ process: SpawnedProgram) async {
        process.signal(SIGTERM)
        _ = await process.end()
    }

    /// Runs `larder` against this agent to its end.
    func larder(_ arguments: String..., input: String = "") async throws -> SpawnedProgram.End {
        try await SpawnedProgram.run("larder", arguments, environment: environment, input: input)
    }
}

/// The service manager's side of sd_notify(3).
private final class NotificationSocket: Sendable {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        unlink(path)
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
    }

    deinit { close(descriptor) }

    /// Waits for `READY=1`.
    func ready() async throws {
        let descriptor = descriptor
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var buffer = [UInt8](repeating: 0, count: 4096)
                while true {
                    let count = recv(descriptor, &buffer, buffer.count, 0)
                    if count < 0 || String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).contains("READY=1") {
                        return continuation.resume()
                    }
                }
            }
        }
    }
}
