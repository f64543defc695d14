import JSON
import Logging

/// Writes one line for each revision that is published; where they come faster than anybody reads, one for many.
///
/// It has no clock: who adds a revision is told when a window begins, and says when it is over.
struct PublicationLog: Sendable {
    /// One revision, as the log tells of it.
    struct Entry: Sendable {
        var revision: Int
        /// The digest of the snapshot's text.
        var digest: SnapshotDigest
        var bytes: Int
        var causes: [ChangeCause]
    }

    /// How long a window lasts.
    static let window = Duration.seconds(1)
    /// How many lines a window has; what comes behind them is told when it is over, in one line.
    static let linesPerWindow = 5

    private let namespace: String
    private let logger: Logger
    private var lines = 0
    private var isWindowOpen = false
    /// The newest revision that is not told yet, and how many were published with it.
    private var untold: (newest: Entry, count: Int)?

    init(namespace: String, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
    }

    /// Whether anybody wants to know.
    var isWanted: Bool { logger.logLevel <= .info }

    /// Tells of a revision, now or later.
    /// - Returns: whether a window begins with it.
    mutating func add(_ entry: Entry) -> Bool {
        if lines < Self.linesPerWindow {
            lines += 1
            write(entry, others: 0)
        } else {
            untold = (entry, (untold?.count ?? 0) + 1)
        }
        defer { isWindowOpen = true }
        return !isWindowOpen
    }

    /// Tells what is untold, at the end of a window.
    /// - Returns: whether another one begins.
    mutating func windowEnded() -> Bool {
        isWindowOpen = untold != nil
        lines = 0
        flush()
        return isWindowOpen
    }

    /// Tells what is untold.
    mutating func flush() {
        guard let (newest, count) = untold else { return }
        untold = nil
        lines += 1
        write(newest, others: count - 1)
    }

    private func write(_ entry: Entry, others: Int) {
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
            }
            let more = entry.causes.count - 1
            reason = ": \(cause.sentence)\(more > 0 ? ", and \(more) more" : "")"
        }
        if others > 0 { metadata["joined"] = "\(others)" }
        let before = others > 0 ? ", with \(others) before it," : ""
        logger.info(
            "namespace \(namespace): revision \(entry.revision)\(before) published\(reason)", metadata: metadata)
    }
}

extension ChangeCause {
    /// What happened, for people.
    fileprivate var sentence: String {
        let place = path.map { $0.isEmpty ? " everything" : " \(JSONPath($0))" } ?? ""
        let words =
            switch kind {
            case .start: "the agent started"
            case .set: "set\(place)"
            case .unset: "unset\(place)"
            case .expiry: "overrides ended"
            case .host: "the host's files changed"
            case .defaults: "the defaults changed"
            case .settings: "the settings changed"
            case .refresh: "another document from \(origin ?? "the source")"
            case .push: "pushed"
            case .rollback: "rolled back to revision \(revision ?? 0)"
            case .release: "released"
            }
        guard let peer else { return words.printable }
        return "\(words) by \(peer.command.isEmpty ? "a process" : peer.command), pid \(peer.pid), uid \(peer.uid)"
            .printable
    }
}

extension String {
    /// The text without what would break a line in two: names of members and of processes may hold anything.
    fileprivate var printable: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? "?" : $0 }))
    }
}
