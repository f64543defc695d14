import Glibc
public import LarderJSON
package import LarderProtocol
import Synchronization

/// The error type of this library.
///
/// ```swift
/// var limit = 10
/// do throws(LarderClientError) {
///     limit = try await client.config.value(at: "search.limit", as: Int.self)
/// } catch {
///     guard error.remoteError?.code == .notFound else { throw error }
///     print("no limit is set")
/// }
/// ```
///
/// Show the ``description`` to people: it always has both what happened and what to do. ``reason`` and ``advice`` are its
/// parts if this library found the error. The text of the agent is one part.
///
/// Without `throws(LarderClientError)`, the compiler infers the type of `error` in a function, but not in a closure. If
/// other errors can occur in the same `do`, use `catch let error as LarderClientError`.
public struct LarderClientError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds, so a `switch` over it needs a `default`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case unreachable, disconnected, timeout, cancelled, protocolViolation, decodingFailed, remote, closed
            case invalidArgument, alreadyRunning, tooManyStreams, unsupported
        }

        private let kind: Kind

        /// No connection could be made; ``LarderClientError/systemError`` has the cause.
        public static let unreachable = Self(kind: .unreachable)
        /// The connection broke before the reply arrived. The agent may have executed the call.
        public static let disconnected = Self(kind: .disconnected)
        /// The call took longer than its timeout. The agent was asked to cancel it, but may have executed it, so check the
        /// effect of a change before you repeat it.
        public static let timeout = Self(kind: .timeout)
        /// The task was cancelled. The agent was asked to cancel the call, but may have executed it, so check the effect of a
        /// change before you repeat it. If the error of the agent (``LarderClientError/remoteError``) is `cancelled`,
        /// nothing was changed.
        public static let cancelled = Self(kind: .cancelled)
        /// The data from the socket violates the protocol. The connection was closed.
        public static let protocolViolation = Self(kind: .protocolViolation)
        /// The value does not match the requested type, or a snapshot without a value was decoded.
        public static let decodingFailed = Self(kind: .decodingFailed)
        /// The agent returned an error; see ``LarderClientError/remoteError``.
        public static let remote = Self(kind: .remote)
        /// The client was used after it was closed, because its `withConnection` or `run()` had ended.
        public static let closed = Self(kind: .closed)
        /// An argument is invalid, such as a malformed path, or a value or file cannot be sent, for example because it
        /// exceeds a limit of the agent.
        public static let invalidArgument = Self(kind: .invalidArgument)
        /// The streams of the client need more subscriptions than the agent permits on the client's connections
        /// (``LarderClient/maximumConnections``).
        public static let tooManyStreams = Self(kind: .tooManyStreams)
        /// `run()` was called a second time.
        public static let alreadyRunning = Self(kind: .alreadyRunning)
        /// The call needs an agent, and the client reads a file; see
        /// ``LarderClient/init(contentsOf:namespace:configuration:)``.
        public static let unsupported = Self(kind: .unsupported)

        /// The name of the kind.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// The failure in one line. For an error that the agent returned, this is the agent's text, which also says what to
    /// do.
    public let reason: String
    /// The next step in one line. Nil for an error that the agent returned, whose ``reason`` says it, and if this library has
    /// no advice.
    public let advice: String?
    /// The agent's error if ``code`` is `remote`, else nil.
    public let remoteError: RemoteError?
    /// The `errno` of connect(2) if ``code`` is `unreachable`; `ENOTSOCK` if the file is not a socket. Nil for other
    /// codes, and if the connection failed for a reason other than a system error.
    public let systemError: Int32?
    /// The number of models that `LarderRepository.importAll` had saved before the error. Nil for other operations.
    public let savedCount: Int?
    /// Whether the agent may have executed the call although its reply has not arrived. True if a call that can change
    /// something was sent and has then failed with `timeout`, `disconnected`, `cancelled`, `protocolViolation` or `closed`,
    /// also if the call was a dry run. Check the effect before you repeat the call: an increment that is repeated can count
    /// twice. False for errors of the agent (`remote`).
    public let mayHaveBeenExecuted: Bool
    /// Whether the call may succeed later although the code of the error means that it cannot.
    private var isMarkedRetryable = false

    /// Creates an error from its properties, for example for tests.
    public init(
        _ code: Code, _ reason: String, advice: String? = nil, remoteError: RemoteError? = nil,
        systemError: Int32? = nil, savedCount: Int? = nil, mayHaveBeenExecuted: Bool = false
    ) {
        self.code = code
        self.reason = reason
        self.advice = advice
        self.remoteError = remoteError
        self.systemError = systemError
        self.savedCount = savedCount
        self.mayHaveBeenExecuted = mayHaveBeenExecuted
    }

    /// Creates an error of the kind `remote` from an error of the agent, for example for tests.
    /// - Parameter error: the error of the agent.
    public init(remote error: RemoteError) {
        self.init(.remote, error.description, remoteError: error)
    }

    package init(remote error: WireError) { self.init(remote: RemoteError(error)) }

    /// Whether the same call may succeed later, with the same arguments and without a change of the settings or
    /// permissions. Before you repeat a change, check ``mayHaveBeenExecuted``. A `conflict` is retryable only if the call
    /// itself reads what it compares, as `update` does. After any other conflict, read again and build the change anew.
    ///
    /// The error `unavailable` of the agent is retryable whatever its cause is: usually the source has not responded yet. If
    /// the settings disable the image cache, it lasts until they enable the cache.
    ///
    /// `cancelled` is not retryable, because the program itself has ended the call. A cancelled change may have been
    /// executed, too.
    public var isRetryable: Bool {
        if isMarkedRetryable { return true }
        return switch code {
        case .unreachable: !isRefusal && systemError != ENAMETOOLONG
        case .disconnected, .timeout: true
        case .remote: remoteError?.code.isRetryable ?? false
        default: false
        }
    }

    /// Whether a person must change settings or permissions before the call can succeed: the settings do not declare the
    /// namespace or do not grant a right, this user may not connect to the socket, or the path is not that of a socket of
    /// an agent. It is not retryable, but a stream keeps trying unless it is created with `failOnRefusal()`.
    public var isRefusal: Bool {
        switch code {
        case .unreachable:
            systemError.map { [EACCES, EPERM, ENOTSOCK, EPROTOTYPE].contains($0) } ?? false
        case .remote: remoteError?.code == .denied || remoteError?.code == .unknownNamespace
        default: false
        }
    }

    /// Whether the agent is unreachable now but may be reachable later: a program that runs for long keeps trying.
    package var isOutage: Bool { isRetryable || code == .unreachable && isRefusal }

    /// The error for a call without a reply.
    /// - Parameters:
    ///   - isSent: whether the request was sent; false if it waited for replies to earlier requests
    static func timeout(of method: String, after timeout: Duration, isSent: Bool = true) -> Self {
        let limit = timeout.shortText
        guard isSent else {
            return Self(
                .timeout, "the agent did not reply to earlier requests within \(limit), so \(method) was not sent",
                advice: "try again later")
        }
        let isReading = MethodEffects.reading.contains(method)
        return Self(
            .timeout, "the agent did not reply to \(method) within \(limit)",
            advice: isReading ? "try again, or allow a longer timeout" : MethodEffects.advice(for: "it"),
            mayHaveBeenExecuted: !isReading)
    }

    /// The error for a call whose task was cancelled.
    /// - Parameters:
    ///   - isSent: whether the request was sent
    static func cancelled(_ method: String, isSent: Bool) -> Self {
        guard isSent, !MethodEffects.reading.contains(method) else { return .cancelled }
        return Self(.cancelled, cancelled.reason, advice: MethodEffects.advice(for: method), mayHaveBeenExecuted: true)
    }

    /// Returns the error of a call whose request was sent, with advice if the connection broke.
    func advised(for method: String) -> Self {
        if MethodEffects.reading.contains(method) {
            guard code == .disconnected, advice == nil else { return self }
            return Self(code, reason, advice: "call \(method) again")
        }
        switch code {
        case .unreachable:
            // The request stays in the socket, and an agent that starts later may read it.
            let effect = MethodEffects.advice(for: method, "may be executed when the agent starts")
            return Self(
                code, reason, advice: [advice, effect].compactMap(\.self).joined(separator: "; "),
                mayHaveBeenExecuted: true)
        case .disconnected:
            return Self(code, reason, advice: advice ?? MethodEffects.advice(for: method), mayHaveBeenExecuted: true)
        case .protocolViolation, .closed: return Self(code, reason, advice: advice, mayHaveBeenExecuted: true)
        default: return self
        }
    }

    /// Returns this error for a call that may succeed later, because the call itself reads what it compares.
    package func asRetryable() -> Self {
        var error = self
        error.isMarkedRetryable = true
        return error
    }

    /// The failure and, if known, the next step, in one line, wherever the error was found.
    public var description: String {
        advice.map { "\(reason); \($0)" } ?? reason
    }
}

extension LarderClientError {
    /// Explains why connect(2) failed, with specific advice for each cause. The errors are those of connect(2) and
    /// unix(7).
    static func unreachable(_ socket: String, errno code: Int32) -> Self {
        let file = SocketFile(socket)
        var code = code
        let (reason, advice): (String, String?)
        // The environment variable has no effect on a path that the program passes.
        let correction =
            socket == LarderSocket.defaultPath
            ? "set \(LarderSocket.environmentVariable) to the path of the agent socket"
            : "pass the path of the agent socket"
        switch code {
        case EINVAL where socket.isEmpty:
            return Self(
                .invalidArgument, "the path of the agent socket is empty",
                advice: "pass nil for the default socket")
        case ENOENT, ENOTDIR:
            // The default socket is the system path only if the socket of the user's own agent does not exist.
            // Therefore neither of the two sockets exists, and the message names both paths.
            let users = socket == LarderSocket.systemPath ? LarderSocket.userPath.map { " or \($0)" } : nil
            reason = "there is no socket at \(socket)\(users ?? "")"
            advice =
                "start the agent (systemctl start larder.socket, or larderd as a user), "
                + "or \(correction)"
        case EACCES, EPERM:
            reason = "permission denied on \(socket)"
            advice = file.permissionAdvice
        case ECONNREFUSED where file.exists && !file.isSocket:
            reason = "\(socket) is not a socket"
            advice = correction
            code = ENOTSOCK
        case ECONNREFUSED where LarderSocket.isAbstract(socket):
            reason = "no process listens on the abstract socket \(socket)"
            advice = "start the agent, or \(correction); to name a file, write ./\(socket)"
        case ECONNREFUSED:
            reason = "no process listens on \(socket): the agent that created it has stopped"
            advice = "start the agent again (systemctl restart larder, or larderd as a user)"
        case EAGAIN:
            reason = "the agent at \(socket) does not accept connections fast enough: its queue is full"
            advice = "retry; if the error persists, check the agent's log, because the agent may hang"
        case EPROTOTYPE:
            reason = "\(socket) is not a stream socket"
            advice = correction
        case ENAMETOOLONG:
            reason = "the path of the socket is longer than 107 bytes, the limit of Linux: \(socket)"
            advice = "use a shorter path, or a symbolic link to its directory"
        default:
            reason = "cannot connect to \(socket): \(String(cString: strerror(code)))"
            advice = nil
        }
        return Self(.unreachable, reason, advice: advice, systemError: code)
    }
}

/// The effects that the methods of the protocol have at the agent.
enum MethodEffects {
    /// Methods that are retried once after a disconnect: they have no side effects and do not depend on the connection.
    static let repeatable: Set<String> = [
        AgentInfo.name, AgentStats.name, AgentClients.name, RPCDiscover.name, ConfigGet.name, ConfigStatus.name,
        ConfigExplain.name, ConfigOverrides.name, ConfigHistory.name, ConfigDiff.name, ConfigSchema.name,
        ConfigBackup.name, ImagePeek.name, ImageList.name, ImageDownloads.name, FlagEvaluate.name,
        FlagEvaluateAll.name, FlagList.name,
    ]
    /// Methods that change nothing at the agent.
    static let reading = repeatable.union([
        AgentPing.name, AgentMetrics.name, ConfigWait.name, ConfigSubscribe.name, ConfigOpen.name, ImageGet.name,
        ImagePrefetch.name, FlagSubscribe.name,
    ])

    /// The advice for a call whose result is unknown.
    static func advice(for call: String, _ result: String = "may have been executed") -> String {
        "\(call) \(result): check its effect before you repeat it"
    }
}

/// An error that the agent returned. See ``LarderClientError/remoteError``.
public struct RemoteError: Sendable, Hashable, CustomStringConvertible {
    /// A kind of error. Later versions may add kinds.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        package let wire: WireErrorCode

        package init(_ wire: WireErrorCode) { self.wire = wire }

        /// The name of the kind in the protocol, such as `notFound`.
        public var description: String { wire.name }

        /// Whether the same call may succeed later without a change of the settings. True for ``unavailable`` whatever its
        /// cause is.
        public var isRetryable: Bool { wire.isRetryable }

        /// The line is not JSON in UTF-8, or is nested too deeply.
        public static let parseError = Self(.parseError)
        /// The line is longer than the limit of the agent.
        public static let lineTooLong = Self(.lineTooLong)
        /// The line is not a request, or the batch is empty or too large.
        public static let invalidRequest = Self(.invalidRequest)
        /// The agent has no such method.
        public static let methodNotFound = Self(.methodNotFound)
        /// A parameter is missing, has the wrong type or a value outside its range.
        public static let invalidParams = Self(.invalidParams)
        /// A bug in the agent. Its log has details.
        public static let internalError = Self(.internalError)
        /// There is no value at the path, the revision is not known, or there is no usable image.
        public static let notFound = Self(.notFound)
        /// The settings declare no such namespace.
        public static let unknownNamespace = Self(.unknownNamespace)
        /// The settings do not permit this process to do this.
        public static let denied = Self(.denied)
        /// The time limit of the request has passed.
        public static let timeout = Self(.timeout)
        /// The request was cancelled.
        public static let cancelled = Self(.cancelled)
        /// The source could not be reached, or its response was not usable.
        public static let upstreamFailed = Self(.upstreamFailed)
        /// The document, or the configuration that would result from it, failed a check.
        public static let rejected = Self(.rejected)
        /// A limit of the agent is reached, for example on subscriptions.
        public static let limitExceeded = Self(.limitExceeded)
        /// The change could not be written to disk. Nothing was changed.
        public static let storageFailed = Self(.storageFailed)
        /// The agent is stopping.
        public static let shuttingDown = Self(.shuttingDown)
        /// The remote source has not responded yet, the settings disable the image cache, the agent cannot use the cache,
        /// or the agent waits for valid settings. A retry helps without intervention only if the source is the cause.
        public static let unavailable = Self(.unavailable)
        /// The origin of an image cannot be reached, and no usable image is cached.
        public static let offline = Self(.offline)
        /// The host of the URL, or of a redirect, has an address that the settings do not allow.
        public static let forbiddenAddress = Self(.forbiddenAddress)
        /// The bytes are not an image that the agent accepts; ``RemoteError/reason`` has the cause.
        public static let imageRejected = Self(.imageRejected)
        /// The limits of the image cache, or the disk, leave no room.
        public static let cacheFull = Self(.cacheFull)
        /// A condition of a change does not hold. Nothing was changed.
        public static let conflict = Self(.conflict)
        /// The resulting configuration would violate the schema of the namespace. Nothing was changed.
        public static let schemaViolation = Self(.schemaViolation)
    }

    /// The state that did not meet the condition of a change.
    public struct Conflict: Sendable, Hashable {
        /// The current revision of the namespace.
        public let revision: Int
        /// The epoch of ``revision``.
        public let epoch: String
        /// The path of the value that differs; nil if the revision or the epoch differs.
        public let path: JSONPath?
        /// The value at ``path``; nil for none, and if this process may not see it.
        public let value: JSONValue?
        /// Whether ``value`` is nil because it is secret or contains a secret.
        public let isMasked: Bool

        /// Creates a conflict from its properties, for example for tests.
        public init(
            revision: Int, epoch: String, path: JSONPath? = nil, value: JSONValue? = nil, isMasked: Bool = false
        ) {
            self.revision = revision
            self.epoch = epoch
            self.path = path
            self.value = value
            self.isMasked = isMasked
        }

        init(_ wire: WireError.Conflict) {
            (revision, epoch, path) = (wire.revision, wire.epoch, wire.path)
            (value, isMasked) = (wire.value, wire.isMasked)
        }

        fileprivate var wire: WireError.Conflict {
            WireError.Conflict(revision: revision, epoch: epoch, path: path, value: value, isMasked: isMasked)
        }

        /// Hashes the revision and its epoch.
        public func hash(into hasher: inout Hasher) {
            hasher.combine(revision)
            hasher.combine(epoch)
        }
    }

    package let wire: WireError

    package init(_ wire: WireError) { self.wire = wire }

    /// Creates an error, for example for tests.
    /// - Parameters:
    ///   - code: the kind of error.
    ///   - detail: what happened and what to do, in one line.
    ///   - reason: the cause, for programs; nil for none.
    ///   - right: the right that this process lacks; nil for none.
    ///   - namespace: the namespace in which this process lacks the right; nil for the whole agent.
    ///   - conflict: the current state, for the kind `conflict`; nil for none.
    ///   - violations: the violations of the schema, for the kind `schemaViolation`.
    public init(
        _ code: Code, _ detail: String, reason: String? = nil, right: LarderRight? = nil, namespace: String? = nil,
        conflict: Conflict? = nil, violations: [ConfigViolation] = []
    ) {
        wire = WireError(
            code.wire, detail, reason: reason, right: right.flatMap { Right(rawValue: $0.rawValue) },
            namespace: namespace, conflict: conflict?.wire,
            schemaErrors: violations.isEmpty ? nil : violations.map(\.wire))
    }

    /// The kind of error.
    public var code: Code { Code(wire.code) }
    /// The reason and the advice, in one line.
    public var detail: String { wire.detail }
    /// The cause, for programs; nil unless the protocol lists causes for this kind of error.
    public var reason: String? { wire.reason }
    /// The right that this process lacks; nil for other errors.
    public var right: LarderRight? { wire.right.map(LarderRight.init) }
    /// The namespace in which this process lacks the right; nil for the whole agent, and for other errors.
    public var namespace: String? { wire.namespace }
    /// The current state, if the kind is `conflict`; nil for other errors.
    public var conflict: Conflict? { wire.conflict.map(Conflict.init) }
    /// The violations of the schema, the most specific first. Empty if this process may not see them, and for other
    /// errors.
    public var violations: [ConfigViolation] { wire.schemaErrors?.map(ConfigViolation.init) ?? [] }

    /// The kind and the detail, in one line.
    public var description: String { wire.description }
}

/// The result of stat(2) for the file at a socket's path.
private struct SocketFile {
    // A stream or `run()` that keeps trying creates an error for each attempt.
    private static let groups = NameCache(AccountName.ofGroup)
    private static let users = NameCache(AccountName.ofUser)

    private let status: stat?

    init(_ path: String) {
        var status = stat()
        self.status = stat(path, &status) == 0 ? status : nil
    }

    var exists: Bool { status != nil }
    var isSocket: Bool { status.map { $0.st_mode & S_IFMT == S_IFSOCK } ?? false }

    /// Advice on how a user can get permission to connect. The advice never is to join the group root.
    var permissionAdvice: String {
        guard let status else { return "run as a user who can access the directory of the socket" }
        if status.st_gid != 0, status.st_mode & S_IWGRP != 0, let group = Self.groups.name(of: status.st_gid) {
            return "add the user to group \(group), which may connect (usermod -aG \(group) USER), and log in again"
        }
        let owner = Self.users.name(of: status.st_uid) ?? "user \(status.st_uid)"
        return "only \(owner) may connect: run as \(owner), or give a group access: SocketGroup= in larder.socket or, "
            + "without systemd, socket.group in the agent's settings"
    }
}

/// Looks up each name once. A lookup may ask a server, and block the thread until it responds. If the host later has
/// another name for an ID, the name that was found first stays in use.
final class NameCache: Sendable {
    private let lookUp: @Sendable (UInt32) -> String?
    private let names = Mutex<[UInt32: String?]>([:])

    init(_ lookUp: @escaping @Sendable (UInt32) -> String?) { self.lookUp = lookUp }

    /// Returns the name for an ID; nil if the host has none.
    func name(of id: UInt32) -> String? {
        if let known = names.withLock({ $0[id] }) { return known }
        let name = lookUp(id)
        names.withLock { $0[id] = .some(name) }
        return name
    }
}

/// Looks up names in the host's databases of users and groups. It uses getpwuid_r(3) and getgrgid_r(3), because
/// getpwuid(3) and getgrgid(3) return static memory that other threads may overwrite.
package enum AccountName {
    private static let bufferSize = 1 << 16

    /// The name of a user; nil if the host has no name for the ID.
    package static func ofUser(_ id: UInt32) -> String? {
        var (record, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getpwuid_r(id, &record, &buffer, buffer.count, &found) == 0 else { return nil }
        return found?.pointee.pw_name.map { String(cString: $0) }
    }

    /// The name of a group; nil if the host has no name for the ID.
    package static func ofGroup(_ id: UInt32) -> String? {
        var (record, found) = (group(), UnsafeMutablePointer<group>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getgrgid_r(id, &record, &buffer, buffer.count, &found) == 0 else { return nil }
        return found?.pointee.gr_name.map { String(cString: $0) }
    }
}
