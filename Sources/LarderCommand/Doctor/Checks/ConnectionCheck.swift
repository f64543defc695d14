import LarderClient

/// Does the agent reply?
enum ConnectionCheck {
    private static let name = "connection"

    static func findings(
        _ agent: AgentAnswer, _ socket: SocketFacts, _ service: ServiceFacts, log: [String]
    ) -> [Finding] {
        switch agent {
        case .facts(let facts):
            let info = facts.info
            let up = Human.span(milliseconds: info.uptimeMilliseconds)
            let from = info.activated ? ", over a socket of systemd's" : ""
            return [
                Finding(
                    .ok, name,
                    "\(info.name) answers in \(milliseconds(facts.roundTrip)) (process \(info.pid), up \(up)\(from))")
            ]
        case .failed(let failure): return [finding(failure, socket, service, log)]
        }
    }

    private static func finding(
        _ failure: AgentAnswer.Failure, _ socket: SocketFacts, _ service: ServiceFacts, _ log: [String]
    ) -> Finding {
        let lines = log.isEmpty || service.hasFailed ? [] : ["the last lines of its log:"] + log.map { "  \($0)" }
        switch failure.kind {
        case .noSocket, .denied:
            return Finding(.skipped, name, "nothing to connect to: see the socket", detail: lines)
        case .refused:
            return Finding(
                .problem, name, "nobody listens on \(socket.path)",
                detail: ["the agent that made it was killed; the next one replaces it"] + lines,
                advice: service.howToStart(socket))
        case .silent:
            let whom = failure.listener.map { " (\($0))" } ?? ""
            return Finding(
                .problem, name, "somebody listens on \(socket.path)\(whom), but does not answer in time",
                detail: [failure.reason] + lines, advice: service.howToRestart)
        case .closed:
            return Finding(
                .problem, name, "the connection was closed before the agent had answered",
                detail: [failure.reason] + lines,
                advice: ["try again: it may just have been stopped"] + service.howToRestart)
        case .foreign:
            return Finding(
                .problem, name, "what answers on \(socket.path) is no Larder agent that this larder understands",
                detail: [failure.reason], advice: ["name the agent's socket: larder doctor --socket PATH"])
        case .other:
            return Finding(.problem, name, failure.reason, detail: lines, advice: service.howToStart(socket))
        }
    }

    private static func milliseconds(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let microseconds = Int(seconds) * 1_000_000 + Int(attoseconds / 1_000_000_000_000)
        return "\(microseconds / 1000).\(microseconds / 100 % 10) ms"
    }
}
