import LarderConfig
import LarderProtocol

/// A request that was admitted, and what its method may use.
struct MethodCall<Method: AuthorizedMethod> {
    let parameters: Method.Parameters
    /// Nil for a notification.
    let id: RequestID?
    let isInBatch: Bool
    /// The template of the line, if it is certain that its id is the request's.
    let template: RequestTemplate?
    let connection: Connection

    var loop: LoopContext { connection.loop }
    var server: ServerContext { connection.loop.server }
    var peer: PeerCredentials { connection.state.principal.credentials }

    /// A namespace.
    /// - Throws: `unknownNamespace`, naming those that exist.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = server.namespaces[name] { return namespace }
        throw server.authorizer.unknownNamespace(name, connection.rights)
    }

    /// The context of a task for this request.
    var context: RequestContext {
        RequestContext(server: server, connections: loop.registry, peer: peer, rights: connection.rights)
    }
}
