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
    /// A connection has ended. The code of the error is `closed` if the client has closed the connection.
    case disconnected(LarderClientError)
    /// An attempt has failed, and the client tries again after the delay. `method` is nil for an attempt of
    /// ``LarderClient/run()`` to connect. A refusal of a stream is reported once, as in ``LarderSnapshots``.
    case retry(method: String?, error: LarderClientError, delay: Duration)
    /// A call has taken at least ``LarderClient/Configuration/slowCall``, including the time in which it waited in the
    /// client. Calls of `config.wait` are not reported.
    case slowCall(method: String, duration: Duration)
    /// A stream has not delivered a number of snapshots, because newer ones replaced them. `path` is a JSON Pointer.
    case skippedSnapshots(count: Int, path: String, namespace: String)
    /// The client has ignored an event of the agent, because this version does not know its kind.
    case ignoredEvent(kind: String)

    /// The event in one line.
    public var description: String {
        switch self {
        case .connected: "connected"
        case .disconnected(let error): "disconnected: \(error)"
        case .retry(let method?, let error, let delay): "\(method) is retried after \(delay): \(error)"
        case .retry(nil, let error, let delay): "the client connects again after \(delay): \(error)"
        case .slowCall(let method, let duration): "\(method) took \(duration)"
        case .skippedSnapshots(let count, let path, let namespace):
            "skipped \(count) snapshots of \"\(path)\" in the namespace \(namespace)"
        case .ignoredEvent(let kind): "ignored an event of the unknown kind \(kind)"
        }
    }
}

/// Counts and reports what happens in a client.
final class ClientMonitor: Sendable {
    /// The number of events of an unknown kind.
    let ignoredEvents = Atomic(0)
    /// Reports an event; nil if the program has no handler.
    let report: (@Sendable (LarderClientEvent) -> Void)?

    init(_ report: (@Sendable (LarderClientEvent) -> Void)?) { self.report = report }

    func ignored(_ kind: String) {
        ignoredEvents.wrappingAdd(1, ordering: .relaxed)
        report?(.ignoredEvent(kind: kind))
    }
}
