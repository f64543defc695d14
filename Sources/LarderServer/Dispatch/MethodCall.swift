import LarderConfig
import LarderConfigModel
import LarderProtocol

/// An admitted request, with access to everything that its method may use.
struct MethodCall<Method: AuthorizedMethod> {
    let parameters: Method.Parameters
    /// Nil for a notification.
    let id: RequestID?
    let isInBatch: Bool
    /// The template of the request's line; nil if the line has none or is a batch, or if the id that the template found
    /// is not the id of the request.
    let template: RequestTemplate?
    let connection: Connection

    var loop: LoopContext { connection.loop }
    var server: ServerContext { connection.loop.server }
    var peer: PeerCredentials { connection.state.principal.credentials }

    /// The peer, for the provenance of a change.
    var author: Peer {
        connection.identifyLogin()
        return peer.provenance
    }

    /// Returns the namespace with a name.
    /// - Throws: `unknownNamespace`. The error lists the namespaces that the peer may know of.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = server.namespaces[name] { return namespace }
        throw server.authorizer.unknownNamespace(name, connection.rights)
    }

    /// The context for a task that executes this request.
    var context: RequestContext {
        RequestContext(server: server, connections: loop.registry, peer: peer, rights: connection.rights)
    }
}
