public import Configuration
public import LarderClientCore

// `LarderClient` is part of this library's interface, so clients need no further import.
@_exported public import LarderClientCore
import LarderJSON
import LarderProtocol
import LarderSnapshotFile
import Synchronization

#if ServiceLifecycle
    public import ServiceLifecycle
#endif

/// A provider of swift-configuration that reads the configuration of one namespace from the local agent.
///
/// ```swift
/// let larder = try await LarderProvider(startup: .required(timeout: .seconds(10)))
/// let config = ConfigReader(providers: [EnvironmentVariablesProvider(), larder])
/// try await withThrowingTaskGroup { group in
///     group.addTask { try await larder.run() }  // follows the agent
///     group.addTask {
///         try await config.watchInt(forKey: "search.limit") { limits in
///             var last = 10  // the default
///             for await limit in limits {
///                 last = limit ?? last  // the last good value stays
///                 print("at most \(last) results")
///             }
///         }
///     }
///     try await group.next()
///     group.cancelAll()
/// }
/// ```
///
/// **Keys.** A component of a key is the name of an object member, so `["a.b"]` and `["a", "b"]` are different keys. A
/// component that is a number also selects an element of an array. The context of a key is ignored: the agent selects
/// values for a host with its own layers. A key without a value, or with the value null, has no value in this provider,
/// so that the next provider is asked.
///
/// **Types.** A JSON value has one meaning for each requested type, and nothing is converted between strings, numbers
/// and Booleans. A number is an integer if its value is one, as `10.0` and `1e2`. Bytes are a string in base64 (RFC
/// 4648, section 4). An array needs elements of one kind. A value of another kind is an error
/// (``LarderProviderError/Code-swift.struct/typeMismatch``) of this key only.
///
/// **Secrets.** A value is secret if a pattern in the agent's settings (`secrets`) or the specifier of this provider
/// selects it. All values are secret until the agent has reported its patterns.
///
/// **Reads.** ``value(forKey:type:)`` reads the newest snapshot that the agent has announced, in memory that is shared
/// with the agent, and never waits. To read several values of one revision, read them from one snapshot. While the
/// agent is away, the last snapshot stays in use.
///
/// **Life cycle.** The provider has the snapshot of its start. It gets later ones while ``run()`` runs, also after
/// restarts of the agent. With the trait `ServiceLifecycle` of the package, the provider is a `Service`.
public final class LarderProvider: Sendable {
    /// Selects secrets, in addition to the patterns in the agent's settings. The keys have no context.
    public typealias Secrets = SecretsSpecifier<AbsoluteConfigKey, ConfigContent>

    /// The behavior of the initializer while the agent is unreachable or has no configuration.
    public enum Startup: Sendable {
        /// Retries until the agent passes a snapshot, and throws an error after the timeout, which must be positive.
        case required(timeout: Duration)
        /// Continues without the agent: with the file that the agent has exported, if there is one, else without any
        /// value. The initializer makes one attempt. It does not wait for an agent that does not run, and waits at most
        /// a second for one that does not reply. ``LarderProvider/run()`` gets the values of the agent later.
        case optional
    }

    /// The maximum time that the initializer waits for a silent agent with ``Startup/optional``.
    private static let optionalLimit = Duration.seconds(1)

    /// The name of the provider, such as `LarderProvider[default]`.
    public let providerName: String
    private let client: LarderClient
    private let namespace: String
    private let hub: SnapshotHub
    private let secretsSpecifier: Secrets
    private let outages: OutageReport
    private let isRunning = Atomic(false)

    /// Creates a provider and waits for the first snapshot as `startup` says.
    ///
    /// ```swift
    /// let provider = try await LarderProvider(
    ///     client: LarderClient(socket: "/run/larder/larder.sock"), namespace: "shop", startup: .optional,
    ///     secretsSpecifier: .specific(["payment.key"]))
    /// ```
    /// - Parameters:
    ///   - client: the client of the agent. The socket must be able to pass descriptors, so it must not be relayed.
    ///   - namespace: the name of a namespace that the settings of the agent declare.
    ///   - startup: whether the agent is needed.
    ///   - secretsSpecifier: selects secrets in addition to the agent's settings.
    ///   - currentDirectory: the directory of the exported files `NAMESPACE.json`; nil for the agent's default,
    ///     `current/` next to the socket. Only ``Startup/optional`` reads the file.
    ///   - onInterruption: called each time an attempt to get a snapshot fails, at the start and while ``run()`` runs, as
    ///     for a stream of `LarderSnapshots`. For a log, skip those whose `isRepeated` is true. The closure must not block.
    ///     If both handlers are nil, refusals are reported on standard error.
    ///   - onResumption: called when the provider follows the agent again after an interruption. The closure must not
    ///     block.
    /// - Throws: `startFailed` if `startup` is `required` and there is no snapshot in time, its timeout is not positive, or
    ///   the agent denies access or does not have the namespace.
    public init(
        client: LarderClient = LarderClient(), namespace: String = LarderClient.defaultNamespace,
        startup: Startup = .required(timeout: .seconds(10)), secretsSpecifier: Secrets = .none,
        currentDirectory: String? = nil,
        onInterruption: (@Sendable (ConfigInterruption) -> Void)? = nil,
        onResumption: (@Sendable () -> Void)? = nil
    ) async throws(LarderProviderError) {
        let name = "LarderProvider[\(namespace)]"
        outages = OutageReport(onInterruption, onResumption)
        let (mapped, origin) = try await Self.firstSnapshot(
            SnapshotStart(client: client, namespace: namespace, outages: outages), startup,
            in: currentDirectory ?? ExportedFile.defaultDirectory(nextTo: client.socket))
        hub = SnapshotHub(
            LarderProviderSnapshot(mapped, origin: origin, providerName: name, specifier: secretsSpecifier))
        (providerName, self.client, self.namespace) = (name, client, namespace)
        self.secretsSpecifier = secretsSpecifier
    }

    /// Follows the agent: replaces the snapshot of this provider with each new one, and notifies the watches. Without
    /// this method, the values stay those of the start.
    ///
    /// Returns when the task is cancelled or the client is closed; with the trait `ServiceLifecycle`, also when the
    /// graceful shutdown of the service begins. Restarts of the agent, and errors that the administrator can resolve,
    /// do not end it.
    /// - Throws: ``LarderProviderError`` with `alreadyRunning` if another call of this method is running.
    public func run() async throws(LarderProviderError) {
        guard !isRunning.exchange(true, ordering: .acquiringAndReleasing) else {
            throw LarderProviderError(.alreadyRunning, "run() of \(providerName) is already running; run it once")
        }
        defer { isRunning.store(false, ordering: .releasing) }
        #if ServiceLifecycle
            await cancelWhenGracefulShutdown { await self.follow() }
        #else
            await follow()
        #endif
    }

    private static func firstSnapshot(
        _ start: SnapshotStart, _ startup: Startup, in directory: String?
    ) async throws(LarderProviderError) -> (MappedSnapshot, LarderProviderSnapshot.Origin) {
        let agent = "the agent at \(start.client.socket)"
        if case .required(let timeout) = startup {
            do throws(LarderClientError) {
                try CallArguments.check(
                    timeout, "timeout", .positive, advice: "pass the startup `optional` to continue without the agent")
            } catch {
                throw LarderProviderError(.startFailed, error.description, clientError: error)
            }
        }
        do throws(SnapshotStart.Failure) {
            switch startup {
            case .required(let timeout): return (try await start.snapshot(within: timeout, retrying: true), .agent)
            case .optional: return (try await start.snapshot(within: optionalLimit, retrying: false), .agent)
            }
        } catch {
            switch (startup, error) {
            case (.required, .failed(let error)):
                throw LarderProviderError(.startFailed, "\(agent) passed no snapshot: \(error)", clientError: error)
            case (.required(let timeout), .timeout(let last)):
                let cause = last.map { ": \($0)" } ?? ""
                throw LarderProviderError(
                    .startFailed, "\(agent) passed no snapshot within \(timeout.shortText)\(cause)", clientError: last)
            case (.optional, .failed(let error)): start.outages.interrupted(ConfigInterruption(error: error))
            case (.optional, .timeout): break
            }
        }
        // A separate thread reads the file, which may be large or on a slow disk.
        let namespace = start.namespace
        if let exported = await onOwnThread({ directory.flatMap { ExportedFile.read(namespace, in: $0) } }) {
            return (exported, .exportedFile)
        }
        do throws(SnapshotFileError) {
            return (try ExportedFile.empty(), .empty)
        } catch {
            throw LarderProviderError(.startFailed, "\(agent) passed no snapshot, and \(error.reason)")
        }
    }

    /// Publishes each new snapshot until the task is cancelled or the client is closed.
    private func follow() async {
        var failures = 0
        while !Task.isCancelled {
            do throws(LarderClientError) {
                var stream = client.config[namespace].mappedSnapshots()
                // A handler replaces the report of a refusal on standard error.
                if outages.hasHandler { stream = stream.onInterruption(outages.interrupted) }
                stream = stream.onResumption(outages.resumed)
                var snapshots = stream.makeAsyncIterator()
                while let snapshot = try await snapshots.next() {
                    failures = 0
                    outages.resumed()
                    hub.publish(
                        LarderProviderSnapshot(
                            snapshot, origin: .agent, providerName: providerName, specifier: secretsSpecifier))
                }
            } catch {
                // A closed client is never opened again. All other errors may be resolved while this process runs: the
                // administrator can declare the namespace, or grant the right to read it.
                if error.code == .closed { return }
                let delay = client.configuration.backoff.delay(beforeAttempt: failures)
                failures += 1
                outages.interrupted(ConfigInterruption(error: error, attempt: failures, delay: delay))
                try? await client.configuration.clock.sleep(for: delay)
            }
        }
    }
}

#if ServiceLifecycle
    extension LarderProvider: Service {}
#endif

extension LarderProvider: ConfigProvider {
    /// Returns the value of a key in the current snapshot. It makes no system call.
    /// - Throws: ``LarderProviderError`` with `typeMismatch`.
    public func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        try hub.current.result(at: key.components, type).get()
    }

    /// Returns the value of a key after the agent has confirmed it with the remote source of the namespace.
    ///
    /// The result may be newer than ``snapshot()`` for a moment.
    /// - Throws: ``LarderProviderError`` with `fetchFailed` if the agent is away, or cannot reach the remote source;
    ///   with `typeMismatch`.
    public func fetchValue(forKey key: AbsoluteConfigKey, type: ConfigType) async throws -> LookupResult {
        let components = key.components
        let parameters = ConfigGet.Parameters(
            path: JSONPath(components), namespace: namespace, maximumAgeSeconds: 0)
        let value: JSONValue?
        do throws(LarderClientError) {
            value = try await client.call(ConfigGet.self, parameters).value
        } catch {
            guard error.remoteError?.code == .notFound else {
                let key = KeyText.text(of: components)
                throw LarderProviderError(
                    .fetchFailed, key: key, "cannot fetch \"\(key)\": \(error)", clientError: error)
            }
            value = nil
        }
        let snapshot = hub.current
        guard let value else { return try snapshot.result(of: nil, at: components, type).get() }
        return try value.withTextBytes { snapshot.result(of: $0, at: components, type) }.get()
    }

    /// Calls `updatesHandler` with the values of a key: the current one first, then each one that differs from the one
    /// before it.
    ///
    /// Values arrive while ``run()`` runs. Restarts of the agent do not end the sequence. It has an element after a
    /// restart only if the value differs. An error about the type of the value is an element, too, and the sequence
    /// continues: `watchInt(forKey:)` of a `ConfigReader` then yields nil, `watchInt(forKey:default:)` the default, and
    /// `watchRequiredInt(forKey:)` throws the error. The sequence ends when the task is cancelled. A slow consumer gets
    /// the newest value next.
    public func watchValue<Return: ~Copyable>(
        forKey key: AbsoluteConfigKey, type: ConfigType,
        updatesHandler: (
            _ updates: ConfigUpdatesAsyncSequence<Result<LookupResult, any Error>, Never>
        ) async throws -> Return
    ) async throws -> Return {
        let components = key.components
        let watcher = hub.watch(components)
        defer { hub.remove(watcher) }
        let updates = SnapshotUpdates(initial: watcher.initial, later: watcher.later) { snapshot in
            snapshot.result(at: components, type)
        } isSame: { first, second in
            switch (first, second) {
            case (.success(let first), .success(let second)): first.value?.content == second.value?.content
            case (.failure(let first), .failure(let second)): first == second
            default: false
            }
        }
        return try await updatesHandler(ConfigUpdatesAsyncSequence(updates.map { $0.mapError { $0 as any Error } }))
    }

    /// Returns the current snapshot, a ``LarderProviderSnapshot``.
    public func snapshot() -> any ConfigSnapshot { hub.current }

    /// Calls `updatesHandler` with the snapshots: the current one first, then each one whose content differs from the
    /// one before it.
    ///
    /// Snapshots arrive while ``run()`` runs. Restarts of the agent do not end the sequence. It ends when the task is
    /// cancelled. A slow consumer gets the newest snapshot next.
    public func watchSnapshot<Return: ~Copyable>(
        updatesHandler: (_ updates: ConfigUpdatesAsyncSequence<any ConfigSnapshot, Never>) async throws -> Return
    ) async throws -> Return {
        let watcher = hub.watch([])
        defer { hub.remove(watcher) }
        let updates = SnapshotUpdates(initial: watcher.initial, later: watcher.later) {
            $0
        } isSame: {
            $0.hasSameText(as: $1, at: [])
        }
        return try await updatesHandler(ConfigUpdatesAsyncSequence(updates.map { $0 as any ConfigSnapshot }))
    }
}

extension LarderProvider: CustomStringConvertible {
    /// The name of the provider, its revision and the number of watchers.
    public var description: String { "\(hub.current), \(hub.watcherCount) watchers" }
}

/// The error type of ``LarderProvider``. No text of it contains a value of the configuration.
///
/// ```swift
/// let config = ConfigReader(provider: try await LarderProvider(startup: .optional))
/// do {
///     try await server.setLimit(config.fetchRequiredInt(forKey: "search.limit"))
/// } catch let error as LarderProviderError where error.code == .fetchFailed {
///     await server.setLimit(config.int(forKey: "search.limit", default: 10))
/// }
/// ```
public struct LarderProviderError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds, so a `switch` over it needs a `default`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case startFailed, fetchFailed, typeMismatch, alreadyRunning
        }

        private let kind: Kind

        /// The agent did not pass a snapshot within the timeout of ``LarderProvider/Startup/required(timeout:)``.
        public static let startFailed = Self(kind: .startFailed)
        /// The agent did not confirm a value: it is unreachable, or it returned an error.
        public static let fetchFailed = Self(kind: .fetchFailed)
        /// The value cannot be converted to the requested type. Other values are not affected.
        public static let typeMismatch = Self(kind: .typeMismatch)
        /// ``LarderProvider/run()`` was called while another call of it was running.
        public static let alreadyRunning = Self(kind: .alreadyRunning)

        /// The name of the kind.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// The key of the value that the error concerns, in the form of `LookupResult.encodedKey`; nil if ``code`` is
    /// `startFailed` or `alreadyRunning`.
    public let key: String?
    /// A description of the error, in one line.
    public let reason: String
    /// The underlying error of the client library; nil without one, as for `typeMismatch`.
    public let clientError: LarderClientError?

    init(_ code: Code, key: String? = nil, _ reason: String, clientError: LarderClientError? = nil) {
        self.code = code
        self.key = key
        self.reason = reason
        self.clientError = clientError
    }

    /// The same as ``reason``.
    public var description: String { reason }
}
