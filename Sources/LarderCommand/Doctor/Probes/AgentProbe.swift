import CLinuxShims
import Glibc
import LarderClientCore
import LarderProtocol

/// Requests the data that the checks need from the agent.
enum AgentProbe {
    private typealias Failure = AgentReply.Failure

    /// Sends all requests over one connection.
    /// - Parameter timeout: the timeout of each request.
    static func answer(socket: String, timeout: Duration) async -> AgentReply {
        var configuration = LarderClient.Configuration()
        configuration.timeout = timeout
        let clock = ContinuousClock()
        let start = clock.now
        do {
            return .facts(
                try await LarderClient.withConnection(socket: socket, configuration: configuration) { client in
                    try await client.agent.ping()
                    return try await facts(client, start.duration(to: clock.now))
                })
        } catch {
            return .failed(failure(of: error, socket: socket))
        }
    }

    /// Classifies an error of a request to the agent at a socket.
    static func failure(of error: any Error, socket: String) -> AgentReply.Failure {
        switch error {
        case let error as LarderClientError: failure(error, socket)
        // The peer replied, but not as an agent would.
        case let error as WireError: Failure(kind: .foreign, reason: "its reply is invalid: \(error.detail)")
        default: Failure(kind: .other, reason: "\(error)")
        }
    }

    private static func facts(_ client: LarderClient, _ roundTrip: Duration) async throws -> AgentFacts {
        let answer = try await client.call(AgentInfo.name)
        let now = Timestamp.now
        let info = try AgentInfo.Result(from: answer)
        return AgentFacts(
            roundTrip: roundTrip, info: info, now: now,
            status: await result(ConfigStatus.self, ConfigStatus.Parameters(namespace: nil), client),
            stats: await result(AgentStats.self, NoParameters(), client),
            visiblePID: command(of: info.pid) == "larderd" ? info.pid : nil)
    }

    /// The command name of a process (`/proc/PID/comm`, proc(5)); nil if it cannot be read.
    static func command(of pid: Int) -> String? {
        let comm = try? Input.contents(of: "/proc/\(pid)/comm")
        return comm.map { String(decoding: $0.dropLast(), as: UTF8.self) }
    }

    private static func result<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, _ client: LarderClient
    ) async -> Result<Method.Result, LarderCommand.Failure> {
        do throws(LarderClientError) {
            return .success(try await client.call(method, parameters))
        } catch {
            return .failure(LarderCommand.Failure(error))
        }
    }

    private static func failure(_ error: LarderClientError, _ socket: String) -> Failure {
        func failure(_ kind: Failure.Kind, listener: String? = nil) -> Failure {
            Failure(kind: kind, reason: error.reason, listener: listener)
        }
        switch error.code {
        case .unreachable:
            switch error.systemError {
            case ENOENT, ENOTDIR, ENOTSOCK: return failure(.noSocket)
            case EACCES, EPERM: return failure(.denied)
            case ECONNREFUSED: return failure(isSocket(socket) ? .refused : .noSocket)
            case EAGAIN: return failure(.silent)
            case EPROTOTYPE: return failure(.foreign)
            default: return failure(.other)
            }
        case .timeout: return failure(.silent, listener: listener(at: socket))
        case .disconnected, .closed: return failure(.closed)
        case .protocolViolation, .decodingFailed: return failure(.foreign)
        case .remote:
            guard let remote = error.remoteError, remote.code == .unavailable else { return failure(.other) }
            return Failure(kind: .withoutSettings, reason: remote.detail)
        default: return failure(.other)
        }
    }

    private static func isSocket(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// The process that called listen(2) on the socket (`SO_PEERCRED`, unix(7)).
    private static func listener(at path: String) -> String? {
        guard let descriptor = try? LarderSocket.connect(path, isBlocking: false) else { return nil }
        defer { close(descriptor) }
        var (pid, uid, gid): (pid_t, uid_t, gid_t) = (0, 0, 0)
        guard larder_peer_credentials(descriptor, &pid, &uid, &gid) == 0, pid > 0 else { return nil }
        if kill(pid, 0) != 0, errno == ESRCH { return "systemd, which is waiting for the agent to start" }
        return "\(command(of: Int(pid)) ?? "a process") (process \(pid), \(Accounts.name(ofUser: uid)))"
    }
}

/// The data that the agent reports about itself.
struct AgentFacts: Sendable {
    /// The duration of the first request, including the time to connect.
    var roundTrip: Duration
    var info: AgentInfo.Result
    /// The time at which `info` was received.
    var now: Timestamp
    var status: Result<ConfigStatus.Result, Failure>
    var stats: Result<AgentStats.Result, Failure>
    /// The process of the agent, for commands; nil if this process does not see a larderd with the ID that the agent
    /// reports, because the agent runs in another container.
    var visiblePID: Int?
}

/// The result of the requests to the agent.
enum AgentReply: Sendable {
    /// Why the agent did not reply.
    struct Failure: Sendable, Equatable {
        /// The kind of failure. Each kind requires a different action of the user.
        enum Kind: Sendable {
            case noSocket, denied, refused, silent, closed, foreign
            /// The agent refuses all requests, because it has no valid settings.
            case withoutSettings
            case other
        }

        var kind: Kind
        /// A description of the failure, in one line.
        var reason: String
        /// The process that listens on the socket, for example `larderd (process 42, larder)`; nil if it cannot be
        /// determined.
        var listener: String?
    }

    case facts(AgentFacts)
    case failed(Failure)

    /// Why the agent refused the settings file, so that it runs with earlier settings or refuses all requests; nil if it
    /// uses the file.
    var settingsProblem: String? {
        switch self {
        case .facts(let facts): facts.info.settingsProblem
        case .failed(let failure): failure.kind == .withoutSettings ? failure.reason : nil
        }
    }

    /// The facts; nil if the agent did not reply.
    var facts: AgentFacts? {
        if case .facts(let facts) = self { facts } else { nil }
    }
}
