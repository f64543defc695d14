import ServiceLifecycle

/// A part of the agent that runs as long as it does.
///
/// Its description is its name. A service group takes one of each of its services, and without this one would go through
/// everything that a service holds, which takes longer than to start it.
protocol AgentService: Service, CustomStringConvertible {}

extension AgentService {
    var description: String { "\(Self.self)" }
}
