import LarderConfig
import LarderConfigModel
import LarderImages
import LarderJSON
import LarderProtocol
import NIOCore

/// The implementation of a protocol method in the agent. The name, parameters, result, requirement and registration
/// (``MethodRegistry/agent``) of the method are generated from its schema.
protocol Method: AuthorizedMethod {
    /// The fate of a pending request when its client disconnects. After the disconnection, a waiting batch still starts
    /// its requests with the lifetime `committed`, but no others.
    static var lifetime: PendingRequests.Lifetime { get }
    /// Whether a notification (a request without an id) of this method is ignored, because the method is useless
    /// without a reply.
    static var needsReply: Bool { get }
    /// Carries out a request that was admitted.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result>
}

extension Method {
    static var lifetime: PendingRequests.Lifetime { .connection }
    static var needsReply: Bool { false }
}

/// How a request gets its reply. This can differ between requests of the same method.
enum Outcome<Result: WireResult> {
    /// The reply is written on the event loop. Its documents are shared with other owners, so that only the encoded
    /// reply takes memory.
    /// - source: the snapshot that the reply was read from. While that snapshot is current, the reply cache sends this
    ///   reply to lines that differ only in their id (``RequestTemplate``). Nil if the reply must not be cached.
    /// - afterReply: runs after the reply was written, even if the reply has to wait for its batch
    case now(Result, source: SnapshotSource? = nil, afterReply: (() -> Void)? = nil)
    /// A task computes the reply.
    case task(TaskReply<Result>)
    /// The store or the subscription hub completes the request.
    /// - size: the memory that the reply takes
    /// - deadline: when the request fails unless it is completed first
    /// - parameterBytes: the memory of the parameters that the request retains while it waits; nil if that is at most
    ///   one copy of them (``JSONValue/detached()``)
    /// - retainedBytes: the other memory that the request retains while it waits
    /// - begin: starts to wait, and returns a function that cancels the wait
    case later(
        size: ReplySize, deadline: ReplyDeadline? = nil, parameterBytes: Int? = nil, retainedBytes: Int = 0,
        begin: (Completion<Result>) -> Cancellation)
}

extension Outcome {
    /// A reply that a task computes.
    static func reply(
        size: ReplySize = .small, _ operation: @escaping @Sendable () async throws(WireError) -> Result
    ) -> Outcome { .task(TaskReply(size: size, operation)) }

    /// A small reply that the image cache computes.
    static func imageReply(_ operation: @escaping @Sendable () async throws(ImageError) -> Result) -> Outcome {
        .reply { () async throws(WireError) in try await WireError.from(operation) }
    }
}

/// An admitted request, with access to everything that its method may use.
struct MethodCall<Method: AuthorizedMethod> {
    let parameters: Method.Parameters
    let request: Request
    let isInBatch: Bool
    /// The template of the request's line; nil if the line has none or is a batch, or if the id that the template found
    /// is not the id of the request.
    let template: RequestTemplate?
    let connection: Connection
    /// The subscriptions and waits of the event loop.
    let hub: SubscriptionHub
    /// The descriptors that arrived with the request or with requests before it; nil if none has arrived.
    let descriptors: ReceivedDescriptors?

    /// Nil for a notification.
    var id: RequestID? { request.id }
    var loop: LoopContext { connection.loop }
    var server: ServerContext { connection.loop.server }
    var peer: PeerCredentials { connection.credentials }
    /// The peer, for the provenance of a change.
    var author: Peer { connection.author }

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

/// The context of a task that executes a request.
struct RequestContext: Sendable {
    let server: ServerContext
    /// All connections, for the methods that report on them.
    let connections: ConnectionRegistry
    let peer: PeerCredentials
    let rights: PeerRights

    /// The namespaces that the peer may read.
    var readableNamespaces: [ConfigNamespace] { server.namespaces.all.filter { rights.mayRead($0.name) } }

    /// The namespaces whose status and figures the peer may see.
    var monitoredNamespaces: [ConfigNamespace] { rights.monitors ? server.namespaces.all : readableNamespaces }

    /// The patterns of values in a namespace that are masked for the peer; empty if it may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        rights.rights(in: namespace.name).contains(.secrets) ? .none : namespace.configuration.secrets
    }
}
