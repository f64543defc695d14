import LarderConfig
import LarderConfigModel
import LarderProtocol

/// The context of a task that executes a request.
struct RequestContext: Sendable {
    let server: ServerContext
    /// All connections, for the methods that report on them.
    let connections: ConnectionRegistry
    let peer: PeerCredentials
    let rights: PeerRights

    /// The namespaces that the peer may read.
    var readableNamespaces: [ConfigNamespace] { server.namespaces.all.filter { rights.mayRead($0.name) } }

    /// The patterns of values in a namespace that are masked for the peer; empty if it may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        rights.rights(in: namespace.name).contains(.secrets) ? .none : namespace.configuration.secrets
    }
}
