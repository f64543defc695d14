import LarderWire
import Logging
import NIOCore
import Synchronization

/// Logs what was refused because of a limit per user: the first time at once, and then, for all of the same user and limit
/// that follows in a while, one line. Whoever asks in a loop would fill the log otherwise.
final class UsageLog: Sendable {
    /// The time from one line to the next.
    static let interval = TimeAmount.seconds(10)

    private struct Subject: Hashable {
        var uid: Int
        var limit: String
    }

    /// Of each subject that a line was written of a short while ago: what was refused since. As many as there are users
    /// who went too far just now, times the limits.
    private let recent = Mutex<[Subject: Int]>([:])

    /// Takes note of something that was refused.
    /// - Parameters:
    ///   - error: what the client is told
    ///   - limit: the name of the setting
    ///   - eventLoop: the current one, on which the next line waits for its time.
    func add(
        _ error: WireError, _ limit: String, of peer: PeerCredentials, on eventLoop: any EventLoop, _ logger: Logger
    ) {
        let subject = Subject(uid: peer.uid, limit: limit)
        let isFirst = recent.withLock { recent in
            recent[subject, default: -1] += 1
            return recent[subject] == 0
        }
        if isFirst { write(subject, 1, error, peer, on: eventLoop, logger) }
    }

    private func write(
        _ subject: Subject, _ count: Int, _ error: WireError, _ peer: PeerCredentials, on eventLoop: any EventLoop,
        _ logger: Logger
    ) {
        // Only now: it takes three system calls, and whoever is refused in a loop would have them made each time.
        let command = peer.knownCommand ?? PeerCredentials.command(of: peer.pid)
        // By the time of the next line the process may be gone.
        var known = peer
        known.knownCommand = command
        logger.warning(
            "a client was refused: \(error.detail)",
            metadata: [
                "refused": "\(count)", "limit": "\(subject.limit)", "peer_uid": "\(peer.uid)",
                "peer_pid": "\(peer.pid)", "peer_command": "\(command)",
            ])
        eventLoop.scheduleTask(in: Self.interval) { [known] in
            let count = self.recent.withLock { recent in
                let count = recent[subject] ?? 0
                recent[subject] = count > 0 ? 0 : nil
                return count
            }
            if count > 0 { self.write(subject, count, error, known, on: eventLoop, logger) }
        }
    }
}
