import LarderPlatform
import LarderProtocol
import Logging

/// Logs refused connections and requests, with a rate limit for each cause.
final class RefusalLogs: Sendable {
    private static let interval = Duration.seconds(10)

    /// The log of connections that were refused because of a limit for the whole agent. The key of an entry is true if
    /// the limit is the one on open files, and false if it is `limits.connections`. The entry is the maximum number of
    /// connections.
    private let connections: RateLimitedLog<Bool, Int>
    private let usage: RateLimitedLog<ExceededLimit, (detail: String, peer: PeerCredentials)>
    private let requests: RateLimitedLog<DeniedRight, DeniedClient>

    init(_ logger: Logger, clock: any Clock<Duration> = ContinuousClock()) {
        connections = RateLimitedLog(every: Self.interval, clock: clock) { isBoundByDescriptors, limit, count in
            logger.warning(
                isBoundByDescriptors
                    ? "connections were refused: the limit of open files is reached"
                    : "connections were refused: limits.connections is reached",
                metadata: ["refused": "\(count)", "limit": "\(limit)"])
        }
        usage = RateLimitedLog(every: Self.interval, clock: clock) { exceeded, client, count in
            logger.warning(
                "a client was refused: \(client.detail)",
                metadata: [
                    "refused": "\(count)", "limit": "\(exceeded.limit)", "peer_uid": "\(exceeded.uid)",
                    "peer_pid": "\(client.peer.pid)", "peer_command": "\(client.peer.command)",
                ])
        }
        requests = RateLimitedLog(every: Self.interval, clock: clock) { denied, denial, count in
            denial.log(denied, count: count, interval: Self.interval, logger)
        }
    }

    /// Logs a connection that was refused because of the number of connections or of open files.
    func addConnection(_ limits: ConnectionLimits) {
        connections.add(limits.isBoundByDescriptors) { $0 = limits.connections }
    }

    /// Logs a request or connection that was refused because of a limit per user.
    /// - Parameters:
    ///   - error: the error that the client receives
    ///   - limit: the name of the setting
    func addUsage(_ error: WireError, _ limit: String, of peer: PeerCredentials) {
        usage.add(ExceededLimit(uid: peer.uid, limit: limit)) { client in
            // A log line stands for many refusals but names only the first client, because reading the command of a
            // client takes three system calls.
            if client != nil { return }
            var peer = peer
            peer.knownCommand = peer.knownCommand ?? PeerCredentials.command(of: peer.pid)
            client = (error.detail, peer)
        }
    }

    /// Logs a request that was refused because the peer lacks a right. Ignores other errors.
    func addRequest(_ error: WireError, to method: String, of peer: PeerCredentials) {
        guard let right = error.right else { return }
        requests.add(DeniedRight(uid: peer.uid, method: method, right: right)) { denial in
            var joined = denial ?? DeniedClient(of: peer)
            joined.peer = peer
            if let namespace = error.namespace { joined.add(namespace) }
            denial = joined
        }
    }

    /// Writes the pending log lines. Called when the agent stops.
    func flush() {
        connections.flush()
        usage.flush()
        requests.flush()
    }
}

private struct ExceededLimit: Hashable {
    var uid: Int
    var limit: String
}

private struct DeniedRight: Hashable {
    var uid: Int
    var method: String
    var right: Right
}

private struct DeniedClient {
    static let maxNamespaces = 8

    /// The peer of the most recent request.
    var peer: PeerCredentials
    /// The first ``maxNamespaces`` namespaces for which requests were denied, in the order of the first request for
    /// each.
    private var namespaces: [String] = []
    private var hasMoreNamespaces = false

    init(of peer: PeerCredentials) { self.peer = peer }

    mutating func add(_ namespace: String) {
        if namespaces.contains(namespace) { return }
        if namespaces.count < Self.maxNamespaces { namespaces.append(namespace) } else { hasMoreNamespaces = true }
    }

    func log(_ denied: DeniedRight, count: Int, interval: Duration, _ logger: Logger) {
        let names = namespaces.joined(separator: ", ")
        var metadata: Logger.Metadata = [
            "method": "\(denied.method)", "right": "\(denied.right.rawValue)", "peer_uid": "\(denied.uid)",
            "peer_pid": "\(peer.pid)", "peer_command": "\(peer.command)",
        ]
        if !namespaces.isEmpty { metadata[namespaces.count == 1 ? "namespace" : "namespaces"] = "\(names)" }
        if count > 1 { metadata["refused"] = "\(count)" }
        let times = count > 1 ? " (\(count) times in \(interval.components.seconds) s)" : ""
        let command = peer.command.isEmpty ? "" : " (\(peer.command))"
        let place =
            switch namespaces.count {
            case 0: ""
            case 1: " in namespace \"\(names)\""
            default: " in namespaces \(names)\(hasMoreNamespaces ? " and others" : "")"
            }
        logger.notice(
            """
            \(denied.method) was denied to user \(denied.uid), process \(peer.pid)\(command)\(times): it requires the \
            right "\(denied.right.rawValue)"\(place)
            """,
            metadata: metadata)
    }
}
