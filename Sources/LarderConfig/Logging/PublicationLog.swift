import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging

/// Logs published revisions: at most five lines per second, then one line for all further revisions of that second.
struct PublicationLog: Sendable {
    /// A published revision.
    struct Entry: Sendable {
        var revision: Int
        /// The digest of the snapshot's text.
        var digest: SnapshotDigest
        var bytes: Int
        var causes: [ChangeCause]
    }

    private let namespace: String
    private let logger: Logger
    private let log: RateLimitedLog<String, Entry>

    init(namespace: String, logger: Logger, clock: any Clock<Duration> = ContinuousClock()) {
        self.namespace = namespace
        self.logger = logger
        log = RateLimitedLog(every: .seconds(1), burst: 5, clock: clock) { namespace, entry, count in
            Self.write(entry, others: count - 1, of: namespace, logger)
        }
    }

    /// Whether the log level includes lines about publications.
    var isWanted: Bool { logger.logLevel <= .info }

    func add(_ entry: Entry) { log.add(namespace) { $0 = entry } }

    /// Writes the pending line about further revisions now, if there is one.
    func flush() { log.flush() }

    private static func write(_ entry: Entry, others: Int, of namespace: String, _ logger: Logger) {
        var metadata: Logger.Metadata = [
            "namespace": "\(namespace)", "revision": "\(entry.revision)", "digest": "\(entry.digest.text.prefix(12))",
            "bytes": "\(entry.bytes)",
        ]
        var reason = ""
        if let cause = entry.causes.last {
            metadata["cause"] = "\(cause.kind.rawValue)"
            metadata["source"] = cause.origin.map { "\($0)" }
            if let peer = cause.peer {
                metadata["peer_uid"] = "\(peer.uid)"
                metadata["peer_pid"] = "\(peer.pid)"
                metadata["peer_command"] = "\(peer.command)"
                metadata["peer_login_uid"] = peer.loginUID.map { "\($0)" }
            }
            metadata["reason"] = cause.reason.map { "\($0)" }
            let more = entry.causes.count - 1
            reason = ": \(cause.sentence)\(more > 0 ? ", and \(more) more" : "")"
        }
        if others > 0 { metadata["joined"] = "\(others)" }
        let before = others > 0 ? " and \(others) earlier ones" : ""
        logger.info(
            "namespace \(namespace): published revision \(entry.revision)\(before)\(reason)", metadata: metadata)
    }
}

extension ChangeCause {
    /// The change as a clause of a log line.
    fileprivate var sentence: String {
        let place = path.map { $0.isEmpty ? " everything" : " \(JSONPath($0))" } ?? ""
        let text =
            switch kind {
            case .start: "the agent started"
            case .set: "set\(place)"
            case .unset: "unset\(place)"
            case .apply: "applied several changes\(place.isEmpty ? "" : " at" + place)"
            case .increment: "incremented\(place)"
            case .expiry: "overrides expired"
            case .host: "the host files changed"
            case .defaults: "the defaults changed"
            case .settings: "the settings changed"
            case .refresh: "new document from \(origin ?? "the source")"
            case .push: "pushed"
            case .rollback: "rolled back to revision \(revision ?? 0)"
            case .release: "released a rollback"
            }
        var sentence = text
        if let peer {
            sentence += " by \(peer.command.isEmpty ? "a process" : peer.command), pid \(peer.pid), uid \(peer.uid)"
            if let login = peer.loginUID, login != peer.uid { sentence += ", login uid \(login)" }
        }
        if let reason { sentence += " (\(reason))" }
        return sentence.printable
    }
}

extension String {
    /// The text with control characters replaced by `?`, because names of members and processes may contain line
    /// breaks.
    fileprivate var printable: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? "?" : $0 }))
    }
}
