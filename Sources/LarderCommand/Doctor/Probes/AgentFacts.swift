import LarderClient

/// What the agent says of itself.
struct AgentFacts: Sendable {
    /// How long the first answer took, the connection included.
    var roundTrip: Duration
    var info: AgentInfo.Result
    /// This program's time when that came.
    var now: Timestamp
    var status: Result<ConfigStatus.Result, Failure>
    var stats: Result<AgentStats.Result, Failure>
}

/// What became of the question.
enum AgentAnswer: Sendable {
    /// Why there was no answer.
    struct Failure: Sendable, Equatable {
        /// The kinds that call for different things to do.
        enum Kind: Sendable { case noSocket, denied, refused, silent, closed, foreign, other }

        var kind: Kind
        /// What happened, in one line.
        var reason: String
        /// Who holds the socket's other end: `systemd, process 1`; nil where nobody can be asked.
        var listener: String?
    }

    case facts(AgentFacts)
    case failed(Failure)

    /// What the agent says of itself; nil where it did not answer.
    var facts: AgentFacts? {
        if case .facts(let facts) = self { facts } else { nil }
    }
}
