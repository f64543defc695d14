import Glibc
import Synchronization

/// Something that happened in a client. Later versions may add cases, so a `switch` over it needs a `default`.
///
/// ```swift
/// let configuration = LarderClient.Configuration { event in
///     switch event {
///     case .disconnected(let error): print("disconnected: \(error)")
///     case .slowCall(let method, let duration): print("\(method) took \(duration)")
///     default: print(event)
///     }
/// }
/// let client = LarderClient(configuration: configuration)
/// ```
public enum LarderClientEvent: Sendable, CustomStringConvertible {
    /// The client has connected to the agent. A client with many streams has several connections.
    case connected
    /// A connection has ended, although the client was using it.
    case disconnected(LarderClientError)
    /// The client has closed a connection, because its `withConnection` or `run()` has ended or the client was released.
    case closed
    /// An attempt has failed, and the client tries again after the delay. `method` is nil for an attempt of
    /// ``LarderClient/run()`` to connect. Further attempts with the same error are not reported before the client has
    /// connected or a stream has resumed, so an outage gives one event for each cause and not one for each attempt.
    case retry(method: String?, error: LarderClientError, delay: Duration)
    /// A call has taken at least ``LarderClient/Configuration/slowCall``, including the time in which it waited in the
    /// client. Calls of `config.wait` are not reported.
    case slowCall(method: String, duration: Duration)
    /// A stream has not delivered a number of snapshots, because newer ones replaced them. `path` is a JSON Pointer.
    case skippedSnapshots(count: Int, path: String, namespace: String)
    /// The client has ignored an event of the agent, because this version does not know its kind.
    case ignoredEvent(kind: String)
    /// The file of a client that reads one instead of an agent is missing or is not a JSON object. The last good document
    /// stays. Each reason is reported once, until the file can be used again. Without a handler, it is printed on standard
    /// error.
    case invalidFile(LarderClientError)

    /// The event in one line.
    public var description: String {
        switch self {
        case .connected: "connected"
        case .disconnected(let error): "disconnected: \(error)"
        case .closed: "closed"
        case .retry(let method, let error, _) where error.isRefusal:
            "\(method ?? "the connection") was refused, and is tried again until it is allowed: \(error)"
        case .retry(let method?, let error, .zero): "\(method) failed and is sent again: \(error)"
        case .retry(let method?, let error, let delay):
            "\(method) failed, next attempt \(delay.attemptText): \(error)"
        case .retry(nil, let error, let delay): "not connected, next attempt \(delay.attemptText): \(error)"
        case .slowCall(let method, let duration): "\(method) took \(duration.shortText)"
        case .skippedSnapshots(let count, let path, let namespace):
            "skipped \(count) snapshots of \"\(path)\" in the namespace \(namespace)"
        case .ignoredEvent(let kind): "ignored an event of the unknown kind \(kind)"
        case .invalidFile(let error): "the last good document stays: \(error)"
        }
    }

    /// Prints the reason why a file cannot be used on standard error.
    static func printInvalidFile(_ event: Self) {
        guard case .invalidFile = event else { return }
        let line = Array("LarderClient: \(event)\n".utf8)
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}

/// Counts and reports what happens in a client.
final class ClientMonitor: Sendable {
    /// The number of events of an unknown kind.
    let ignoredEvents = Atomic(0)
    /// Reports an event; nil if the program has no handler.
    let report: (@Sendable (LarderClientEvent) -> Void)?
    /// The errors of the failed attempts that were reported since the client last connected or a stream last resumed.
    private let failures = Mutex<Set<LarderClientError>>([])
    /// The maximum number of errors in ``failures``. An error can have a varying text, such as a number.
    private static let maxFailures = 64

    init(_ report: (@Sendable (LarderClientEvent) -> Void)?) { self.report = report }

    func connected() {
        succeeded()
        report?(.connected)
    }

    /// Notes that an attempt has succeeded. The next failed one is reported, whatever its error is.
    func succeeded() {
        if report != nil { failures.withLock { $0.removeAll() } }
    }

    /// Reports a failed attempt, unless one with the same error was reported since the last success.
    func failed(_ method: String?, _ error: LarderClientError, retryAfter delay: Duration) {
        guard let report else { return }
        let isNew = failures.withLock { failures in
            if failures.count >= Self.maxFailures { failures.removeAll() }
            return failures.insert(error).inserted
        }
        if isNew { report(.retry(method: method, error: error, delay: delay)) }
    }

    func ignored(_ kind: String) {
        ignoredEvents.wrappingAdd(1, ordering: .relaxed)
        report?(.ignoredEvent(kind: kind))
    }
}
