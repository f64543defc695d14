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

    /// The last one that is not told of yet.
    private struct Denial {
        var error: WireError
        var peer: PeerCredentials
        var count: Int
    }

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
            recent.updateValue(Denial(error: error, peer: peer, count: (former?.count ?? 0) + 1), forKey: subject)
            return false
        }
        guard isFirst else { return }
        Self.write(subject, Denial(error: error, peer: peer, count: 1), logger)
        wait(subject, on: eventLoop, logger)
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
        if let namespace = denial.error.namespace { metadata["namespace"] = "\(namespace)" }
        if denial.count > 1 { metadata["refused"] = "\(denial.count)" }
        let times = denial.count > 1 ? " (\(denial.count) times in \(interval.nanoseconds / 1_000_000_000) s)" : ""
        let place = denial.error.namespace.map { " in namespace \($0)" } ?? ""
        let command = denial.peer.command.isEmpty ? "" : " (\(denial.peer.command))"
        logger.notice(
            """
            \(subject.method) was refused to user \(subject.uid), process \(denial.peer.pid)\(command)\(times): it needs \
            the right \(subject.right.rawValue)\(place)
            """,
            metadata: metadata)
    }
}
