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
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        if !call.isInBatch { call.connection.servedMonitoring() }
        return .now(Result())
    }
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

extension AgentMetrics: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Result> {
        if !call.isInBatch { call.connection.servedMonitoring() }
        let context = call.context
        // The figures of a namespace take at most 512 bytes, once as values and once as text.
        let size = ReplySize.atMost(1024 * call.server.namespaces.all.count)
        return .task(TaskReply(encoding: size) { await context.metrics() })
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
        if let problem = server.images?.view.diskProblem {
            problems.append(AgentInfo.Problem(name: "imageSpace", message: problem))
        }
        if let problem = server.settings.savingProblem {
            problems.append(AgentInfo.Problem(name: "settingsCopy", message: problem))
        }
        if let problem = server.reportProblem {
            problems.append(AgentInfo.Problem(name: "report", message: problem))
        }
        return problems
    }

    fileprivate func stats() async -> AgentStats.Result {
        var namespaces: [String: AgentStats.Namespace] = [:]
        for namespace in monitoredNamespaces {
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
            residentBytes: ProcessFigures.residentBytes, namespaces: namespaces,
            images: server.images.map { AgentStats.Images($0.view.statistics) })
    }

    /// The number of namespaces after which the task lets others run.
    private static let namespacesPerSlice = 64

    /// Collects the figures outside the event loops.
    @concurrent
    fileprivate func metrics() async -> AgentMetrics.Result {
        let (traffic, behind) = (await connections.traffic(), await connections.laggingSubscriptions())
        let (namespaces, removedPublications) = server.namespaces.counted
        var publications = removedPublications
        var figures: [AgentMetrics.Namespace] = []
        figures.reserveCapacity(namespaces.count)
        for (index, namespace) in namespaces.enumerated() {
            if index % Self.namespacesPerSlice == Self.namespacesPerSlice - 1 { await Task.yield() }
            let status = namespace.publication.status
            publications += status.publishes
            figures.append(AgentMetrics.Namespace(namespace, status))
        }
        let durations = server.namespaces.requestDurations
        let directories =
            [("state", server.identity.stateDirectory)] + (server.images.map { [("images", $0.directory)] } ?? [])
        let (process, disks) = await server.namespaces.onDisk {
            (ProcessFigures(), directories.compactMap { AgentMetrics.Disk($0, at: $1) })
        }
        return AgentMetrics.Result(
            version: server.identity.version, startedAt: server.startedAt, connections: traffic.connectionsOpen,
            requests: traffic.requestsTotal, subscriptionsOpen: traffic.subscriptionsOpen, subscriptionsBehind: behind,
            publications: publications, refused: traffic.refused,
            sourceRequests: AgentMetrics.Durations(
                boundsMilliseconds: RequestDurations.boundsMilliseconds, counts: durations.counts,
                totalMilliseconds: durations.totalMilliseconds),
            residentBytes: process.residentBytes, openFiles: process.openFiles, maximumFiles: process.maximumFiles,
            disks: disks, namespaces: figures,
            images: server.imageProblem == nil ? server.images.map { AgentMetrics.Images($0.view.statistics) } : nil)
    }
}

extension AgentMetrics.Namespace {
    fileprivate init(_ namespace: ConfigNamespace, _ status: PublishedStatus) {
        let counters = status.counters
        self.init(
            namespace: namespace.name, state: ConfigState(status.freshness),
            revision: namespace.publication.current.snapshot.revision, overrides: status.overrides,
            isRejected: status.isRejecting,
            lastSuccessAt: status.source?.lastSuccessAt.map(Timestamp.init(milliseconds:)),
            certificateExpiresAt: namespace.certificateExpiry.map { Timestamp(milliseconds: $0.time) },
            changed: counters.changed, notModified: counters.notModified, failed: counters.failed)
    }
}

extension AgentMetrics.Images {
    fileprivate init(_ statistics: ImageStatistics) {
        self.init()
        hits = statistics.hits
        misses = statistics.misses
        joined = statistics.joined
        staleAnswers = statistics.staleAnswers
        downloaded = statistics.downloads
        revalidated = statistics.revalidations
        failed = statistics.failures
        bytes = statistics.bytes
        maximumBytes = statistics.limits.bytes
        entries = statistics.entries
        certificateExpiresAt = statistics.certificateExpiresAt.map { Timestamp(milliseconds: 1000 * $0) }
    }
}

extension AgentMetrics.Disk {
    /// Measures the file system of a directory (statvfs(3)); nil if that is impossible. Blocks on disk I/O.
    fileprivate init?(_ directory: String, at path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let unit = Int(clamping: status.f_frsize)
        self.init(
            directory: directory, bytes: Int(clamping: status.f_blocks) * unit,
            freeBytes: Int(clamping: status.f_bavail) * unit)
    }
}

/// The resources of this process, as proc(5) shows them.
private struct ProcessFigures: Sendable {
    let residentBytes = Self.residentBytes
    let openFiles = Self.openFiles
    let maximumFiles = Self.maximumFiles

    /// The resident memory in bytes; 0 if it cannot be read. The second number in `statm` is the same in pages.
    static var residentBytes: Int {
        let fields = PeerCredentials.line(at: "/proc/self/statm").split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
    }

    /// The number of open file descriptors; 0 if it cannot be read.
    private static var openFiles: Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        // The entries ".", ".." and the descriptor of the directory do not count.
        var count = -3
        while readdir(directory) != nil { count += 1 }
        return max(0, count)
    }

    private static var maximumFiles: Int {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? Int(clamping: limit.rlim_cur) : 0
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
