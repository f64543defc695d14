import LarderEventLoop
import NIOCore

/// Which clients of an event loop are watched because their output waits.
struct StallWatch {
    fileprivate var sessions: [Session] = []
    fileprivate var isSweeping = false
}

/// Clients that take nothing are dropped. There may be thousands of them: each sweep over them is cut into pieces, between
/// which the others are served.
extension LoopContext {
    /// Watches over a client for as long as its output waits.
    func watchForStalls(of session: Session) {
        if session.isWatchedForStalls { return }
        session.isWatchedForStalls = true
        stalls.sessions.append(session)
        if stalls.isSweeping { return }
        stalls.isSweeping = true
        let limit = session.limits.stallTime
        sweepStalls(after: min(.nanoseconds(max(limit.nanoseconds / 8, 10_000_000)), .milliseconds(500)))
    }

    private func sweepStalls(after pause: TimeAmount) {
        eventLoop.assumeIsolated().scheduleTask(in: pause) { self.sweepStalls(every: pause) }
    }

    private func sweepStalls(every pause: TimeAmount) {
        let now = NIODeadline.now()
        let waiting = stalls.sessions
        stalls.sessions = []
        eachInPieces(waiting) { session in
            session.dropIfStalled(at: now)
            session.countHeldBytes()
            session.isWatchedForStalls = session.isOutputPending
            if session.isOutputPending { self.stalls.sessions.append(session) }
        } andThen: {
            self.dropThoseInTheWay(waiting, now) {
                self.stalls.isSweeping = !self.stalls.sessions.isEmpty
                guard self.stalls.isSweeping else { return }
                self.sweepStalls(after: pause)
            }
        }
    }

    /// Drops those who keep others of their user from being served, the largest first, until there are none.
    private func dropThoseInTheWay(_ waiting: [Session], _ now: NIODeadline, andThen end: @escaping () -> Void) {
        var inTheWay: [Session] = []
        eachInPieces(waiting) { session in
            if session.isInTheWay(at: now) { inTheWay.append(session) }
        } andThen: {
            self.eachInPieces(inTheWay.sorted { $0.heldBytes > $1.heldBytes }) { session in
                if session.isInTheWay(at: now) { session.dropBecauseOfUsage() }
            } andThen: {
                end()
            }
        }
    }

    /// Does something with each of many sessions. What takes longer than a time slice is deferred.
    private func eachInPieces(
        _ sessions: [Session], from start: Int = 0, _ body: @escaping (Session) -> Void,
        andThen end: @escaping () -> Void
    ) {
        let until = NIODeadline.now() + Self.turnTime
        for index in start..<sessions.count {
            body(sessions[index])
            guard index + 1 < sessions.count, NIODeadline.now() >= until else { continue }
            return deferWork { self.eachInPieces(sessions, from: index + 1, body, andThen: end) }
        }
        end()
    }
}
