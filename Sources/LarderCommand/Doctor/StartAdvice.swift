/// The advice to start or restart an agent that does not reply.
struct StartAdvice: Sendable, Equatable {
    let start: [String]
    let restart: [String]

    /// Creates the advice.
    /// - Parameters:
    ///   - settings: the settings file; nil if it is unknown.
    ///   - serviceFindings: the findings about the service. Their advice starts the service if it has a problem.
    init(_ service: ServiceFacts, _ socket: SocketFacts, settings: SettingsFacts?, serviceFindings: [Finding]) {
        if serviceFindings.contains(where: { $0.level == .problem }) {
            start = ["correct the service first (see above)"]
            restart = start
        } else {
            start = Self.precondition(settings) + service.startCommands(socket)
            restart = Self.precondition(settings) + service.restartCommands
        }
    }

    /// The advice that precedes the commands that start the agent; empty if the settings permit a start.
    static func precondition(_ settings: SettingsFacts?) -> [String] {
        settings?.preventsStart == true ? ["correct the settings first (see above), then:"] : []
    }
}
