import LarderClientCore

/// The data that the agent reports about itself.
struct AgentFacts: Sendable {
    /// The duration of the first request, including the time to connect.
    var roundTrip: Duration
    var info: AgentInfo.Result
    /// The time at which `info` was received.
    var now: Timestamp
    var status: Result<ConfigStatus.Result, Failure>
    var stats: Result<AgentStats.Result, Failure>
    /// The process of the agent, for commands; nil if this process does not see a larderd with the ID that the agent
    /// reports, because the agent runs in another container.
    var visiblePID: Int?
}

/// The result of the requests to the agent.
enum AgentReply: Sendable {
    /// Why the agent did not reply.
    struct Failure: Sendable, Equatable {
        /// The kind of failure. Each kind requires a different action of the user.
        enum Kind: Sendable {
            case noSocket, denied, refused, silent, closed, foreign
            /// The agent refuses all requests, because it has no valid settings.
            case withoutSettings
            case other
        }

        var kind: Kind
        /// A description of the failure, in one line.
        var reason: String
        /// The process that listens on the socket, for example `larderd (process 42, larder)`; nil if it cannot be
        /// determined.
        var listener: String?
    }

    case facts(AgentFacts)
    case failed(Failure)

    /// Why the agent refused the settings file, so that it runs with earlier settings or refuses all requests; nil if it
    /// uses the file.
    var settingsProblem: String? {
        switch self {
        case .facts(let facts): facts.info.settingsProblem
        case .failed(let failure): failure.kind == .withoutSettings ? failure.reason : nil
        }
    }

    /// The facts; nil if the agent did not reply.
    var facts: AgentFacts? {
        if case .facts(let facts) = self { facts } else { nil }
    }
}
