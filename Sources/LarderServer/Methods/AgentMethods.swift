import CProtocolDescription
import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderImages
import LarderProtocol
import NIOCore
import Glibc

extension AgentPing: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> { .now(Result()) }
}

extension AgentInfo: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> { .now(call.context.info) }
}

extension AgentStats: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        let context = call.context
        // The names and figures of a namespace take at most 256 bytes.
        let size = ReplySize.atMost(256 * call.server.namespaces.all.count)
        return .reply(size: size) { () async throws(WireError) in await context.stats() }
    }
}

extension AgentClients: Method {
    /// The usual maximum of the memory of one connection in the reply: its figures, and what it has acknowledged.
    private static let bytesOfClient = 2048

    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        let connections = call.loop.registry
        return .reply(size: .atMost(bytesOfClient * connections.connections)) { () async throws(WireError) in
            Result(clients: await connections.clients())
        }
    }
}

extension RPCDiscover: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        .now(Result(document: ProtocolDescription.openRPC))
    }
}

extension RequestCancel: Method {
    /// Cancels the pending requests of this connection that have the given id. Each cancelled request gets its own
    /// reply, besides the reply to `request.cancel`.
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        let (id, connection) = (call.parameters.id, call.connection)
        let reason = WireError(.cancelled, "request \(id.text) was cancelled by request.cancel")
        return .now(Result(cancelled: connection.requests.cancel(id, reason)))
    }
}

extension RequestContext {
    fileprivate var info: AgentInfo.Result {
        let settings = server.limits
        var limits = AgentInfo.Limits()
        limits.lineBytes = settings.lineBytes
        limits.batch = RequestDispatcher.maxBatchRequests
        limits.nesting = JSONParser.defaultMaximumDepth
        limits.connections = settings.connections
        limits.subscriptionsPerConnection = settings.subscriptionsPerConnection
        limits.requestsInFlightPerConnection = settings.requestsInFlightPerConnection
        limits.sendTimeoutMilliseconds = settings.sendTimeout.milliseconds
        limits.connectionsPerUser = settings.effectiveConnectionsPerUser
        limits.subscriptionsPerUser = settings.subscriptionsPerUser
        limits.requestsInFlightPerUser = settings.requestsInFlightPerUser
        limits.leasesPerUser = settings.leasesPerUser
        limits.queuedBytesPerUser = settings.queuedBytesPerUser
        let source = server.settings
        return AgentInfo.Result(
            name: "larderd", version: server.identity.version, protocolVersion: larderProtocolVersion,
            pid: Int(getpid()),
            startedAt: server.startedAt, uptimeMilliseconds: server.uptimeMilliseconds,
            epoch: server.namespaces.epoch, socket: server.identity.socketPath,
            activated: server.identity.isActivated, stateDirectory: server.identity.stateDirectory,
            imageDirectory: server.imageProblem == nil ? server.images?.directory : nil,
            threadProblem: server.threadProblem, settings: source.path, settingsReadAt: source.readAt,
            settingsProblem: source.problem, problems: problems, namespaces: readableNamespaces.map(\.name),
            limits: limits,
            peer: peer.wire, rights: rights.general.list,
            namespaceRights: rights.inPrivateNamespaces(of: server.namespaces.all),
            imageProblem: server.imageProblem)
    }

    /// The problems that no other member reports. Leaves out namespaces in which the caller has no right.
    private var problems: [AgentInfo.Problem] {
        var problems = server.namespaces.openingProblems.filter { rights.mayKnow(of: $0.name) }
            .map { AgentInfo.Problem(name: "namespace", message: "namespace \($0.name): \($0.problem)") }
        if let problem = server.images?.view.writeProblem?.description {
            problems.append(AgentInfo.Problem(name: "imageIndex", message: problem))
        }
        if let problem = server.settings.savingProblem {
            problems.append(AgentInfo.Problem(name: "settingsCopy", message: problem))
        }
        return problems
    }

    fileprivate func stats() async -> AgentStats.Result {
        var namespaces: [String: AgentStats.Namespace] = [:]
        for namespace in readableNamespaces {
            let status = namespace.publication.status
            let counters = status.counters
            var figures = AgentStats.Namespace()
            figures.revision = namespace.publication.current.snapshot.revision
            figures.publishes = status.publishes
            figures.attempted = counters.attempted
            figures.changed = counters.changed
            figures.notModified = counters.notModified
            figures.failed = counters.failed
            namespaces[namespace.name] = figures
        }
        return AgentStats.Result(
            uptimeMilliseconds: server.uptimeMilliseconds, traffic: await connections.traffic(),
            residentBytes: Self.residentBytes(), namespaces: namespaces,
            images: server.images.map { AgentStats.Images($0.view.statistics) })
    }

    /// The resident memory in bytes; 0 if it cannot be read. The second number in `statm` (proc(5)) is the same in
    /// pages.
    private static func residentBytes() -> Int {
        let fields = PeerCredentials.line(of: "statm", of: Int(getpid())).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
    }
}

/// The OpenRPC document of the protocol, which is compiled into the program.
enum ProtocolDescription {
    /// The content of `Protocol/openrpc.json`, parsed once.
    static let openRPC: JSONValue = {
        let bytes = UnsafeRawBufferPointer(start: larder_openrpc(), count: larder_openrpc_size())
        // Tests ensure that the document is valid.
        return (try? JSONValue(parsing: Array(bytes))) ?? .emptyObject
    }()
}
