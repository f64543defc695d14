import ArgumentParser
import LarderClient
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
    case programFailed = 126
    case programNotFound = 127

    /// The meaning, for `--help`.
    var meaning: String {
        switch self {
        case .success: "done"
        case .failure: "any other failure; doctor, status --check: something does not work"
        case .usage: "the command line or a parameter is wrong"
        case .notFound: "nothing at that path, no such namespace, or an image that is not held"
        case .denied: "the agent, its settings or the socket's permissions do not allow it"
        case .unreachable: "the agent cannot be reached"
        case .timeout: "no answer in time"
        case .upstream: "the remote source failed, or a document was rejected"
        case .unavailable: "not available yet: the remote source never answered"
        case .offline: "image: the origin cannot be reached, and nothing is held that would do"
        case .imageRefused: "image: what the origin sent is not let in"
        case .noRoom: "image: the limits of the cache or the disk leave no room"
        case .warnings: "doctor, status --check: all works, but something needs attention"
        case .programFailed: "exec: the program cannot be run"
        case .programNotFound: "exec: there is no such program"
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
        case .shuttingDown: self = .unreachable
        case .invalidParams: self = .usage
        default: self = .failure
        }
    }
}
