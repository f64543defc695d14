import LarderWire
import Logging
import NIOCore
import Synchronization

/// Logs requests that were refused for want of a right: the first one at once, and then, for all of the same user, method and
/// right that follow in a while, one line. Whoever asks in a loop would fill the log otherwise.
final class DenialLog: Sendable {
    /// The time from one line to the next.
    static let interval = TimeAmount.seconds(10)

    private struct Subject: Hashable {
        var uid: Int
        var method: String
        var right: Right
    }

    /// What is not told of yet, joined.
    private struct Denial {
        /// Of the last one.
        var peer: PeerCredentials
        var count = 0
        /// In the order in which they were asked for.
        var namespaces: [String] = []
        /// Whether there were more of them.
        var hasMoreNamespaces = false

        init(of peer: PeerCredentials) { self.peer = peer }

        mutating func add(_ error: WireError, _ peer: PeerCredentials) {
            self.peer = peer
            count += 1
            guard let namespace = error.namespace, !namespaces.contains(namespace) else { return }
            if namespaces.count < mostNamespaces { namespaces.append(namespace) } else { hasMoreNamespaces = true }
        }

        /// Where the right was wanting, to follow its name.
        var place: String {
            let names = namespaces.joined(separator: ", ")
            switch namespaces.count {
            case 0: return ""
            case 1: return " in namespace \(names)"
            default: return " in namespaces \(names)\(hasMoreNamespaces ? " and others" : "")"
            }
        }
    }

    /// As many are named in one line.
    static let mostNamespaces = 8

    /// Of each subject that a line was written of a short while ago: what came since. As many as there are users who were
    /// refused something just now, times a few.
    private let recent = Mutex<[Subject: Denial?]>([:])

    /// Takes note of a request that was refused.
    /// - Parameters:
    ///   - error: why; nothing is noted of one that is not about a right.
    ///   - eventLoop: the current one, on which the next line waits for its time.
    func add(
        _ error: WireError, to method: String, of peer: PeerCredentials, on eventLoop: any EventLoop, _ logger: Logger
    ) {
        guard let right = error.right else { return }
        let subject = Subject(uid: peer.uid, method: method, right: right)
        let isFirst = recent.withLock { recent in
            guard let former = recent[subject] else {
                recent.updateValue(nil, forKey: subject)
                return true
            }
            var denial = former ?? Denial(of: peer)
            denial.add(error, peer)
            recent.updateValue(denial, forKey: subject)
            return false
        }
        guard isFirst else { return }
        var denial = Denial(of: peer)
        denial.add(error, peer)
        Self.write(subject, denial, logger)
        wait(subject, on: eventLoop, logger)
    }

    /// Tells of what was not told of yet: at the agent's end, where no line can wait for its time.
    func flush(_ logger: Logger) {
        let untold = recent.withLock { recent in
            defer { recent = [:] }
            return recent.compactMapValues { $0 }
        }
        for (subject, denial) in untold { Self.write(subject, denial, logger) }
    }

    private func wait(_ subject: Subject, on eventLoop: any EventLoop, _ logger: Logger) {
        eventLoop.scheduleTask(in: Self.interval) {
            let denial = self.recent.withLock { recent in
                let denial = recent[subject] ?? nil
                if denial == nil { recent[subject] = nil } else { recent.updateValue(nil, forKey: subject) }
                return denial
            }
            guard let denial else { return }
            Self.write(subject, denial, logger)
            self.wait(subject, on: eventLoop, logger)
        }
    }

    private static func write(_ subject: Subject, _ denial: Denial, _ logger: Logger) {
        var metadata: Logger.Metadata = [
            "method": "\(subject.method)", "right": "\(subject.right.rawValue)", "peer_uid": "\(subject.uid)",
            "peer_pid": "\(denial.peer.pid)", "peer_command": "\(denial.peer.command)",
        ]
        if !denial.namespaces.isEmpty {
            metadata[denial.namespaces.count == 1 ? "namespace" : "namespaces"] =
                "\(denial.namespaces.joined(separator: ", "))"
        }
        if denial.count > 1 { metadata["refused"] = "\(denial.count)" }
        let times = denial.count > 1 ? " (\(denial.count) times in \(interval.nanoseconds / 1_000_000_000) s)" : ""
        let command = denial.peer.command.isEmpty ? "" : " (\(denial.peer.command))"
        logger.notice(
            """
            \(subject.method) was refused to user \(subject.uid), process \(denial.peer.pid)\(command)\(times): it needs \
            the right \(subject.right.rawValue)\(denial.place)
            """,
            metadata: metadata)
    }
}
