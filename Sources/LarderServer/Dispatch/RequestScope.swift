import LarderEventLoop
import LarderConfigModel
import LarderConfig
import LarderJSON
import LarderProtocol

/// The surroundings of a request: what a method may use.
struct RequestScope: Sendable {
    let context: ServerContext
    /// All connections, for the methods that report on them.
    let connections: ConnectionRegistry
    let peer: PeerCredentials
    let rights: PeerRights
    /// Runs short tasks on the connection's loop; nil if the loop is not an ``EpollLoop``.
    let taskExecutor: LoopTaskExecutor?

    /// Reads the parameters of a request and checks the peer's rights.
    /// - Throws: `invalidParams`; `denied`, which is logged; `unknownNamespace`
    func admit<Method: GuardedMethod>(
        _ method: Method.Type, _ params: JSONValue?
    ) throws(WireError) -> (Method.Parameters, Admission) {
        let parameters = try Method.Parameters(params: params)
        let admission = Admission(method, parameters)
        if let refusal = refusal(of: admission) { throw refusal }
        return (parameters, admission)
    }

    /// Why the peer does not have the right to a request, or no longer; nil if it has. A refusal is logged.
    func refusal(of admission: Admission) -> WireError? {
        guard let refusal = rights.refusal(of: admission.need, context.namespaces) else { return nil }
        context.refusals.addRequest(refusal, to: admission.method, of: peer)
        return refusal
    }

    /// A namespace.
    /// - Throws: `unknownNamespace`, naming those that exist.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = context.namespaces[name] { return namespace }
        throw rights.unknownNamespace(name, context.namespaces)
    }

    /// The namespaces that the peer may read.
    var readableNamespaces: [ConfigNamespace] { context.namespaces.all.filter { rights.mayRead($0.name) } }

    /// The patterns that are masked in a namespace's values for the peer; none if it may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        rights.rights(in: namespace.name).contains(.secrets) ? .none : namespace.configuration.secrets
    }
}

extension RequestScope {
    init(_ connection: Connection) {
        self.init(
            context: connection.loop.server, connections: connection.loop.registry,
            peer: connection.principal.credentials, rights: connection.rights,
            taskExecutor: connection.loop.taskExecutor)
    }
}
