import Glibc
import LarderFlagRules
import LarderJSON
import NIOCore
import NIOHTTP1

/// The state of the gateway, which all connections share. Used on the event loop.
final class GatewayCore {
    /// The maximum number of bytes of bodies that are buffered for all connections.
    private static let maxBufferedBytes = 64 << 20

    let settings: GatewaySettings
    let access: AccessControl
    let loop: any EventLoop
    let namespaces: [String: ServedNamespace]
    private let maxConnections: Int
    private var connections: [ObjectIdentifier: HTTPConnection] = [:]
    private var bufferedBytes = 0
    /// The number of evaluations of all flags that wait for their next time slice.
    var waitingEvaluations = 0
    private var timer: RepeatedTask?
    /// Set by ``waitForAnswers()``; succeeds once the agent has answered for each namespace, or after a pause.
    private var firstAnswers: EventLoopPromise<Void>?
    /// Set by ``shutDown()``; succeeds once all connections are closed.
    private var end: EventLoopPromise<Void>?

    /// - Parameter maxConnections: the limit of the settings, or a lower one
    init(_ settings: GatewaySettings, _ access: AccessControl, maxConnections: Int, on loop: any EventLoop) {
        (self.settings, self.access, self.maxConnections, self.loop) = (settings, access, maxConnections, loop)
        namespaces = Dictionary(
            uniqueKeysWithValues: settings.namespaces.map { ($0.name, ServedNamespace($0)) })
    }

    // MARK: Namespaces

    /// Changes the state of a namespace.
    func change(_ name: String, _ body: (ServedNamespace) -> Void) {
        namespaces[name].map(body)
        if namespaces.values.allSatisfy(\.hasAnswer) { endWait() }
    }

    /// Waits until the agent has sent or refused a snapshot of each namespace, for at most two seconds. Requests that arrive
    /// at the start are then served. Called once.
    func waitForAnswers() -> EventLoopFuture<Void> {
        if namespaces.values.allSatisfy(\.hasAnswer) { return loop.makeSucceededVoidFuture() }
        let promise = loop.makePromise(of: Void.self)
        firstAnswers = promise
        loop.assumeIsolated().scheduleTask(in: .seconds(2)) { self.endWait() }
        return promise.futureResult
    }

    private func endWait() {
        firstAnswers?.succeed()
        firstAnswers = nil
    }

    // MARK: Connections

    /// Adds the handlers of a new connection. If the limit is reached, closes the connection that has not made progress for
    /// the longest time.
    func add(_ channel: any Channel) throws {
        if connections.count >= maxConnections {
            let stalled = connections.values.compactMap { one in one.stalledSince.map { (one, $0) } }
            guard let (oldest, _) = stalled.min(by: { $0.1 < $1.1 }) else { throw ChannelError.eof }
            remove(oldest)
            oldest.close()
        }
        let connection = HTTPConnection(self)
        try connection.addHandlers(to: channel)
        connections[ObjectIdentifier(connection)] = connection
        if end != nil { connection.quiesce() }
        if timer == nil { startTimer() }
    }

    /// Forgets a connection that is closed.
    func remove(_ connection: HTTPConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.isEmpty else { return }
        timer?.cancel()
        timer = nil
        end?.succeed()
    }

    private func startTimer() {
        let core = NIOLoopBound(self, eventLoop: loop)
        timer = loop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { _ in
            for connection in Array(core.value.connections.values) { connection.tick(.now()) }
        }
    }

    /// Ends all connections after the responses in progress, at the latest after five seconds.
    func shutDown() -> EventLoopFuture<Void> {
        let promise = loop.makePromise(of: Void.self)
        end = promise
        for connection in Array(connections.values) { connection.quiesce() }
        if connections.isEmpty { promise.succeed() }
        loop.assumeIsolated().scheduleTask(in: .seconds(5)) {
            for connection in Array(self.connections.values) { connection.close() }
        }
        return promise.futureResult
    }

    /// Counts bytes before they are buffered. Returns false if there are too many.
    func reserve(_ bytes: Int) -> Bool {
        guard bufferedBytes + bytes <= Self.maxBufferedBytes else { return false }
        bufferedBytes += bytes
        return true
    }

    func release(_ bytes: Int) { bufferedBytes -= bytes }

    static let busy = Response.error(.serviceUnavailable, "too many bytes are buffered for other requests; try again")
        .with("Retry-After", "1")

    // MARK: Requests

    /// Checks everything that the header of a request shows.
    func route(_ head: HTTPRequestHead) throws(Response) -> Route {
        let route: Route
        do throws(Route.Problem) {
            route = try Route(head.uri)
        } catch {
            // The token is checked first, so that a client without it learns nothing.
            try access.checkToken(of: head)
            throw error == .unknown ? Self.unknown : .error(.badRequest, "the request target is malformed")
        }
        if head.method == .OPTIONS, head.headers.contains(name: "Origin") {
            throw Response(
                status: .noContent,
                headers: [
                    "Access-Control-Allow-Methods": "GET, HEAD, POST",
                    "Access-Control-Allow-Headers":
                        "Authorization, X-API-Key, Content-Type, If-None-Match, Last-Event-ID",
                    "Access-Control-Max-Age": "600",
                ])
        }
        if !route.isPublic { try access.checkToken(of: head) }
        switch route {
        case .health, .readiness: break
        case .flag(let key, let name):
            guard namespaces[name]?.settings.flags != nil else {
                throw Evaluation.failure("FLAG_NOT_FOUND", Self.notServed, key: key, .notFound)
            }
        case .flags(let name):
            guard namespaces[name]?.settings.flags != nil else { throw Self.unknown }
        case .config(_, let name):
            guard namespaces[name]?.settings.servesConfig == true else { throw Self.unknown }
        }
        guard route.methods.contains(head.method) else {
            throw .error(.methodNotAllowed, "use another method")
                .with("Allow", route.methods.map(\.rawValue).joined(separator: ", "))
        }
        return route
    }

    private static let notServed = "there is no such path, or the settings of the gateway do not serve this namespace"
    private static let unknown = Response.error(.notFound, notServed)

    var health: Response { .json(.ok, Array(#"{"status":"ok"}"#.utf8)) }

    var readiness: Response {
        let missing = namespaces.values.count { $0.snapshot == nil }
        guard missing > 0 else { return .json(.ok, Array(#"{"status":"ready"}"#.utf8)) }
        return .error(
            .serviceUnavailable, "\(missing) \(missing == 1 ? "namespace has" : "namespaces have") no snapshot yet")
    }

    /// Evaluates one flag.
    func evaluate(_ key: String, in name: String, _ body: ByteBuffer) throws(Response) -> Response {
        let snapshot = try snapshot(of: name)
        let outcome = snapshot.evaluate(key, try Evaluation.context(body, key: key), now: Self.now)
        return Evaluation.response(outcome, key: key)
    }

    /// Begins the evaluation of all flags.
    func evaluateAll(in name: String, _ body: ByteBuffer) throws(Response) -> BulkEvaluation {
        let snapshot = try snapshot(of: name)
        let context = try Evaluation.context(body, key: nil)
        guard let flags = snapshot.flags else { throw Self.unknown }
        if snapshot.areFlagsSecret { throw Evaluation.failure("GENERAL", ServedSnapshot.secretFlag, key: nil) }
        if let problem = flags.problem { throw Evaluation.failure(problem.code.rawValue, problem.message, key: nil) }
        return BulkEvaluation(flags, of: snapshot, context, now: Self.now)
    }

    private static var now: Int64 { Int64(time(nil)) }

    private func snapshot(of name: String) throws(Response) -> ServedSnapshot {
        if let snapshot = namespaces[name]?.snapshot { return snapshot }
        throw .error(
            .internalServerError,
            "the gateway has no snapshot of the namespace \(name); check that the agent runs, and that the user of the "
                + "gateway may read the namespace")
    }

    /// The response with the value at a path.
    func config(at path: JSONPath, in name: String, for head: HTTPRequestHead) throws(Response) -> Response {
        _ = try snapshot(of: name)
        switch namespaces[name]?.value(at: path) ?? .missing {
        case .found(let value):
            let response = Response.json(.ok, value.body).with("Cache-Control", "no-cache")
            return (value.isMasked ? response.with("Larder-Masked", "true") : response).tagged(value.etag, for: head)
        case .missing: throw .error(.notFound, "there is no value at this path")
        case .secret:
            throw .error(.forbidden, "the settings of the agent declare this path secret, so it is never served")
        case .tooLarge:
            throw .error(
                .insufficientStorage,
                "the value exceeds \(ServedSnapshot.maxValueBytes) bytes; request a path below it, or use the socket")
        }
    }

    /// The namespace of a stream. Streams use at most half of the connections.
    func namespaceToStream(_ name: String, head: HTTPRequestHead) throws(Response) -> ServedNamespace {
        _ = try snapshot(of: name)
        let count = namespaces.values.reduce(0) { $0 + $1.streams.count }
        guard let namespace = namespaces[name], count < (maxConnections + 1) / 2, head.version == .http1_1
        else {
            throw .error(.serviceUnavailable, "there are too many streams, or the request is not HTTP/1.1")
        }
        return namespace
    }
}
