import LarderConfig
import LarderJSON
import LarderProtocol

/// The surroundings of a request: what a method may use.
struct RequestScope: Sendable {
    /// What the whole server shares.
    let context: ServerContext
    /// All connections, for the methods that tell of them.
    let connections: ConnectionRegistry
    /// Whom the request comes from.
    let peer: PeerCredentials
    /// What the peer may do.
    let rights: PeerRights
    /// Runs short tasks on that loop; nil where it is none of the agent's own.
    let taskExecutor: LoopTaskExecutor?

    /// Reads the parameters of a request and looks whether the peer may have it carried out.
    /// - Throws: `invalidParams`; `denied`, which is logged; `unknownNamespace`
    func admit<Method: GuardedMethod>(
        _ method: Method.Type, _ params: JSONValue?
    ) throws(WireError) -> (Method.Parameters, Admission) {
        let parameters = try Method.Parameters(params: params)
        let admission = Admission(method, parameters)
        if let refusal = refusal(of: admission) { throw refusal }
        return (parameters, admission)
    }

    /// Why the peer may not have a request carried out, or not any more; nil where it may. It is logged.
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

    /// What has to be masked in a namespace's values for the peer; nothing for one that may see secrets.
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
