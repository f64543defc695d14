import ArgumentParser
import Glibc
import LarderClientCore
import LarderProtocol

/// The failure that this program reports when it ends, with advice.
struct Failure: Error, Equatable {
    let status: ExitStatus
    /// A description of the failure and advice, in one line.
    let message: String
    /// The name of the error: the protocol's name for it if there is one, else a name of this program.
    let name: String
    /// The error code of the protocol for ``name``; nil if the protocol does not define that name.
    let code: Int?
    /// The agent's error, if it sent one.
    let remote: WireError?

    /// Creates a failure that this program detected.
    init(_ status: ExitStatus, _ message: String) {
        self.init(status, message, name: "\(status)", remote: nil)
    }

    /// Creates the failure for a failed call.
    /// - Parameter hints: creates the commands in the message.
    init(_ error: LarderClientError, _ hints: Hints = Hints()) {
        self.init(
            ExitStatus(error),
            [error.description, Self.advice(error, hints)].compactMap(\.self).joined(separator: "; "),
            name: error.remoteError?.code.description ?? error.code.description, remote: error.remoteError?.wire)
    }

    private init(_ status: ExitStatus, _ message: String, name: String, remote: WireError?) {
        (self.status, self.message, self.name, self.remote) = (status, message, name, remote)
        code = remote?.code.number ?? WireError.Code.all.first { $0.name == name }?.number
    }

    /// The failure of a system call for a file.
    /// - Parameter code: the error number
    static func cannot(_ action: String, _ path: String, _ code: CInt = errno) -> Failure {
        Failure(.failure, "cannot \(action) \(path.printable): \(String(cString: strerror(code)))")
    }

    /// The same failure with more advice.
    func adding(_ advice: String) -> Failure {
        Failure(status, "\(message); \(advice)", name: name, remote: remote)
    }

    /// The failure of a request that is too long to be sent.
    static func tooLong(bytes: Int, limit: Int) -> Failure {
        Failure(
            .failure, "the request has \(bytes) bytes, more than the limit of \(limit); \(tooLongAdvice)",
            name: WireError.Code.lineTooLong.name, remote: nil)
    }

    private static let tooLongAdvice =
        "raise limits.lineBytes in the settings, or let the agent read the document from a file or over HTTP"

    /// Ends the program after it has written the failure to standard error: as one line of text, or as JSON if
    /// requested.
    func endThisProcess() -> Never {
        if Output.isJSON { Output.errorLine(json) } else { Output.note(message) }
        exit(status.rawValue)
    }

    var json: String {
        JSONValue.building { writer in
            writer.beginObject()
            writer.member("name", name)
            writer.member("code", code.map(JSONValue.int) ?? .null)
            writer.member("message", message)
            writer.member("reason", remote?.reason)
            writer.member("right", remote?.right?.rawValue)
            writer.member("namespace", remote?.namespace)
            if let conflict = remote?.conflict {
                writer.member("revision", conflict.revision)
                writer.member("epoch", conflict.epoch)
                writer.member("path", conflict.path?.description)
                writer.member("value", conflict.value)
                if conflict.isMasked { writer.member("masked", true) }
            }
            if let remote, remote.schemaErrors != nil {
                writer.member("errors", JSONValue.building { remote.write(to: &$0) }["data"]?["errors"])
            }
            writer.member("exitStatus", Int(status.rawValue))
            writer.endObject()
        }.compactText
    }

    private static func advice(_ error: LarderClientError, _ hints: Hints) -> String? {
        switch error.code {
        case .timeout:
            "increase --timeout, or find the cause with: \(hints.command("larder doctor"))"
        case .remote where error.remoteError?.code == .methodNotFound:
            "the agent may have an older version; list its methods with: \(hints.command("larder call rpc.discover"))"
        case .disconnected where error.advice == nil: "retry, because the agent may have restarted"
        case .remote where error.remoteError?.code == .lineTooLong:
            tooLongAdvice
        case .remote where error.remoteError.map { $0.violations.count > 1 } ?? false:
            "add --json to list all violations"
        case .remote: error.remoteError?.wire.conflict.map(current)
        default: nil
        }
    }

    /// Describes the current revision and value, which did not meet the condition of a change.
    private static func current(_ conflict: WireError.Conflict) -> String {
        let value =
            conflict.isMasked
            ? ", the value is secret" : conflict.value.map { ", the value is \($0.compactText.printable)" } ?? ""
        return "the current revision is \(conflict.revision)\(value)"
    }
}

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
    case imageRejected = 10
    case cacheFull = 11
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
        case .notFound: "no value at the path, unknown namespace, or no such image"
        case .denied: "denied by the agent, its settings or the permissions of the socket"
        case .unreachable: "the agent is unreachable"
        case .timeout: "no reply in time; wait: the condition was not met in time"
        case .upstream:
            "the remote source failed, or a document was rejected, except by a schema; render: the check failed"
        case .unavailable:
            "not available yet: no document from the source, or no valid settings; image: the cache is disabled or unusable"
        case .offline: "image: the origin is unreachable, and no usable copy is cached"
        case .imageRejected: "image: the file is not an acceptable image"
        case .cacheFull:
            "image: no space within the limits of the cache or on the disk; prefetch: images were evicted for others"
        case .warnings: "doctor, status --check: everything works, but something needs attention"
        case .conflict: "a condition of the change does not hold, such as --if-value; nothing was changed"
        case .schemaViolation: "the change or document would violate the schema of the namespace; nothing was changed"
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
        case .remote: self = error.remoteError.map { Self($0.wire.code) } ?? .failure
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
        case .imageRejected: self = .imageRejected
        case .cacheFull: self = .cacheFull
        case .conflict: self = .conflict
        case .schemaViolation: self = .schemaViolation
        case .shuttingDown: self = .unreachable
        case .invalidParams: self = .usage
        default: self = .failure
        }
    }
}
