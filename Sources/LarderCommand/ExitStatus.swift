import ArgumentParser
import LarderClientCore
import Glibc

/// The exit statuses of the program. They are the same for every verb.
enum ExitStatus: Int32, CaseIterable {
    case success = 0
    case failure = 1
    case usage = 2
    case notFound = 3
    case denied = 4
    case unreachable = 5
    case timeout = 6
    case upstream = 7
    case unavailable = 8
    case offline = 9
    case imageRefused = 10
    case noRoom = 11
    case warnings = 12
    case conflict = 13
    case schemaViolation = 14
    case programFailed = 126
    case programNotFound = 127

    /// The description of the status for `--help`.
    var meaning: String {
        switch self {
        case .success: "success"
        case .failure: "any other failure; doctor, status --check: something does not work"
        case .usage: "invalid command line or parameter"
        case .notFound: "no value at the path, unknown namespace, or image not cached"
        case .denied: "denied by the agent, its settings or the permissions of the socket"
        case .unreachable: "the agent is unreachable"
        case .timeout: "no reply in time; wait: the condition was not met in time"
        case .upstream: "the remote source failed, or a document was rejected; render: the check failed"
        case .unavailable:
            "not available yet: no document from the source, or no valid settings; image: the cache is disabled or unusable"
        case .offline: "image: the origin is unreachable, and no usable copy is cached"
        case .imageRefused: "image: the file is not an acceptable image"
        case .noRoom:
            "image: no space within the limits of the cache or on the disk; prefetch: images were evicted for others"
        case .warnings: "doctor, status --check: everything works, but something needs attention"
        case .conflict: "a condition of the change does not hold, such as --if-value; nothing was changed"
        case .schemaViolation: "the change would violate the schema of the namespace; nothing was changed"
        case .programFailed: "exec, image get --exec: the program cannot be run"
        case .programNotFound: "exec, image get --exec: the program was not found"
        }
    }

    func endThisProcess() -> Never { exit(rawValue) }

    /// The exit status for a failed call.
    init(_ error: LarderClientError) {
        switch error.code {
        case .unreachable: self = error.systemError == EACCES || error.systemError == EPERM ? .denied : .unreachable
        case .disconnected: self = .unreachable
        case .timeout: self = .timeout
        case .invalidArgument: self = .usage
        case .remote: self = error.remoteError.map { Self($0.code) } ?? .failure
        default: self = .failure
        }
    }

    private init(_ code: WireError.Code) {
        switch code {
        case .notFound, .unknownNamespace: self = .notFound
        case .denied, .forbiddenAddress: self = .denied
        case .timeout: self = .timeout
        case .upstreamFailed, .rejected: self = .upstream
        case .unavailable: self = .unavailable
        case .offline: self = .offline
        case .imageRefused: self = .imageRefused
        case .noRoom: self = .noRoom
        case .conflict: self = .conflict
        case .schemaViolation: self = .schemaViolation
        case .shuttingDown: self = .unreachable
        case .invalidParams: self = .usage
        default: self = .failure
        }
    }
}
