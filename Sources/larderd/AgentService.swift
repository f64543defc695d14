import ServiceLifecycle

/// A service that runs as long as the agent.
///
/// Its description is the name of its type. ServiceGroup formats a description of each service. The default description
/// would include everything that the service references, which takes longer than starting the service.
protocol AgentService: Service, CustomStringConvertible {}

extension AgentService {
    var description: String { "\(Self.self)" }
}
