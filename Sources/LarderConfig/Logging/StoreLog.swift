import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging

/// The log lines of one store. It is a class, so that calls do not copy its state.
final class StoreLog {
    private let namespace: String
    private let logger: Logger
    private let publications: PublicationLog
    private var sources: SourceLog
    /// The value of ``PublishedStatus/changes`` at the last comparison; nil before the first.
    private var compared: Int?
    private let storageProblems: RateLimitedLog<String, FileError>

    init(namespace: String, clock: any Clock<Duration>, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
        publications = PublicationLog(namespace: namespace, logger: logger, clock: clock)
        sources = SourceLog(namespace: namespace, logger: logger)
        storageProblems = RateLimitedLog(every: .seconds(60), clock: clock) { _, error, count in
            logger.error(
                "namespace \(namespace): cannot write a change to disk; it was rejected: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)", "before": "\(count - 1)"])
        }
    }

    func published(_ snapshot: ConfigSnapshot, _ causes: [ChangeCause]) {
        guard publications.isWanted else { return }
        publications.add(
            PublicationLog.Entry(
                revision: snapshot.revision, digest: snapshot.contentDigest, bytes: snapshot.bytes, causes: causes))
    }

    /// Writes the pending line of ``PublicationLog`` now, if there is one. That line stands for the revisions above its
    /// rate limit.
    func flush() { publications.flush() }

    /// Logs the differences between a status and the one of the previous call.
    func note(_ status: PublishedStatus, now: Int) {
        if compared == status.changes { return }
        compared = status.changes
        sources.note(status.current, now: now)
    }

    func storageFailed(_ error: FileError) { storageProblems.add("\(error.operation) \(error.errno)") { $0 = error } }

    func storageWorked() { storageProblems.reset() }

    func experimentsLeftOut(_ problem: String) {
        logger.warning(
            "namespace \(namespace): the experiments of the remote document are invalid and ignored; correct the document, or the setting experiments.member: \(problem)",
            metadata: ["namespace": "\(namespace)", "error": "\(problem)"])
    }

    /// Logs a change that the schema has rejected, and that no client requested.
    func rejectedBySchema(_ rejected: RejectedChange) {
        let what =
            rejected.subject.layer.map { "new content of the layer \($0)" }
            ?? "the new settings of locks or experiments"
        logger.warning(
            "namespace \(namespace): the schema rejects \(what); the previous content stays in use: \(Self.list(rejected.problems))",
            metadata: ["namespace": "\(namespace)", "version": "\(rejected.version ?? "none")"])
    }

    func violatesSchema(_ problems: [SchemaProblem]) {
        logger.warning(
            "namespace \(namespace): the published configuration violates the schema: \(Self.list(problems))",
            metadata: ["namespace": "\(namespace)"])
    }

    /// Logs that the schema file cannot be used.
    /// - Parameter previous: the path of the schema in force; nil for none
    func schemaUnusable(_ problem: String, previous: String?) {
        let effect =
            previous.map { "; the schema that was last read from \($0) stays in force" } ?? ", so nothing is validated"
        logger.error(
            "namespace \(namespace): cannot use the schema\(effect): \(problem)",
            metadata: ["namespace": "\(namespace)"])
    }

    private static func list(_ problems: [SchemaProblem]) -> String {
        let shown = problems.prefix(3).map(\.text).joined(separator: "; ")
        return problems.count > 3 ? "\(shown); \(problems.count - 3) more" : shown
    }

    func failed(_ message: String, _ error: any Error, level: Logger.Level = .error) {
        logger.log(
            level: level, "namespace \(namespace): \(message): \(error)",
            metadata: ["namespace": "\(namespace)", "error": "\(error)"])
    }
}

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
