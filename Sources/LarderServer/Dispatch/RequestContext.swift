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
    func admit<Method: AuthorizedMethod>(
        _ method: Method.Type, _ params: JSONValue?
    ) throws(WireError) -> (Method.Parameters, Admission) {
        let parameters = try Method.Parameters(params: params)
        let admission = Admission(Method.name, Method.requirement(parameters))
        if let denial = context.authorizer.decide(admission.requirement, rights) {
            context.refusals.addRequest(denial.error, to: admission.method, of: peer)
            throw denial.error
        }
        return (parameters, admission)
    }

    /// A namespace.
    /// - Throws: `unknownNamespace`, naming those that exist.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = context.namespaces[name] { return namespace }
        throw context.authorizer.unknownNamespace(name, rights)
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
