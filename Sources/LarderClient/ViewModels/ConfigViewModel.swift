public import FoundationEssentials
public import Observation
import Synchronization

/// An observable model of the value at one path, for user interfaces and for any code that observes properties.
///
/// ```swift
/// struct Search: Codable { var limit: Int; var hosts: [String] }
///
/// let model = ConfigViewModel(client.config, at: "search", as: Search.self)
/// let following = Task { await model.follow() }
/// await model.set(Search(limit: 25, hosts: ["a"]))
/// await model.update { $0.limit = 30 }
/// await model.unset()
/// await model.refresh()
/// print(model.value?.limit ?? 10, model.isLoading, model.lastError?.description ?? "no error")
/// following.cancel()
/// ```
///
/// Values of more than 4 KiB are decoded and released on another thread, so they do not delay the main actor. The methods
/// do not throw. An error becomes ``lastError``, and ``value`` keeps the last value that could be decoded.
/// `ConfigViewModel<JSONValue>` is a model of values of any type. All properties are read-only; the generated declarations
/// do not show that their setters are private.
@Observable @MainActor
public final class ConfigViewModel<Value: Decodable & Sendable> {
    /// Work that a model waits for.
    public enum Activity: Sendable, Hashable {
        /// ``ConfigViewModel/follow(_:)`` waits for the first snapshot.
        case firstValue
        /// ``ConfigViewModel/refresh(force:)`` or a method that writes waits for the agent.
        case call
        /// ``ConfigViewModel/follow(_:)`` has lost the connection to the agent.
        case reconnection
    }

    /// The newest value that could be decoded. Without a value at the path, the default value of the model. It is kept
    /// while the agent is unreachable.
    public private(set) var value: Value?
    /// The newest snapshot; nil before the first one. Its value may be one that could not be decoded.
    public var snapshot: LarderSnapshot? {
        access(keyPath: \.snapshot)
        return shownSnapshot
    }
    /// The most recent error: of the connection, of a method of this model, or of decoding a value. Nil if there was
    /// none, or if a value was decoded since. When ``follow(_:)`` has reconnected, it is the error of decoding the
    /// newest value, or nil.
    public private(set) var lastError: LarderClientError?

    /// The path of the value.
    public let path: String
    /// The name of the namespace.
    public let namespace: String

    /// The value of ``snapshot``. A stored property of the macro would compare the values of the old and the new snapshot
    /// before it notifies observers, which takes long for large ones.
    @ObservationIgnored private var shownSnapshot: LarderSnapshot?
    /// The end of the queue of snapshots that are being decoded.
    @ObservationIgnored private var lastReceipt: Task<Void, Never>?
    private var followers = 0
    private var calls = 0
    private var isInterrupted = false
    /// Why the value of ``snapshot`` could not be decoded; nil if it was.
    @ObservationIgnored private var decodingError: LarderClientError?
    private let config: any ConfigCalls
    private let defaultValue: Value?
    private let coding: ConfigClient.Coding

    /// Creates a model. It does not connect to the agent before one of its methods is called.
    /// - Parameters:
    ///   - config: the namespace, such as `client.config` or `client.config["shop"]`; in tests any ``ConfigCalls``.
    ///   - path: the path of the value; empty for the whole document.
    ///   - type: the type of the value.
    ///   - defaultValue: the value of the model before the first snapshot, and while there is no value at the path. It
    ///     also provides the members that a value lacks, as for
    ///     ``ConfigCalls/value(at:as:default:decoder:)``.
    ///   - decoder: decodes the values.
    ///   - encoder: encodes the values that ``set(_:ttl:)`` and ``update(_:)`` write. Its strategies must match those of
    ///     the decoder.
    public init(
        _ config: any ConfigCalls, at path: String = "", as type: Value.Type = Value.self,
        default defaultValue: Value? = nil,
        decoder: JSONDecoder = JSONDecoder(), encoder: JSONEncoder = JSONEncoder()
    ) {
        self.config = config
        self.path = path
        namespace = config.namespace
        self.defaultValue = defaultValue
        coding = ConfigClient.Coding(decoder: decoder, encoder: encoder)
        value = defaultValue
    }

    /// The work that the model waits for.
    public var activities: Set<Activity> {
        var activities: Set<Activity> = []
        if followers > 0, snapshot == nil { activities.insert(.firstValue) }
        if calls > 0 { activities.insert(.call) }
        if isInterrupted { activities.insert(.reconnection) }
        return activities
    }

    /// Whether the model waits for anything; ``activities`` lists the reasons.
    public var isLoading: Bool { !activities.isEmpty }

    /// Keeps the model up to date until the task is cancelled, or until an error that a retry cannot resolve, which is
    /// then ``lastError``.
    /// - Parameter snapshots: the snapshots to follow; nil for those of the agent at ``path``. Tests and previews pass
    ///   a stream that they create. The handlers of the stream are called as well.
    public func follow(_ snapshots: LarderSnapshots? = nil) async {
        let snapshots = snapshots ?? config.snapshots(at: path, mode: .snapshot)
        let steps = snapshots.makeSteps()
        followers += 1
        defer {
            followers -= 1
            isInterrupted = false
        }
        do throws(LarderClientError) {
            while let step = try await steps.next() {
                switch step {
                case .snapshot(let snapshot):
                    isInterrupted = false
                    await receive(snapshot)
                case .interruption(let interruption):
                    isInterrupted = true
                    lastError = interruption.error
                    snapshots.handlers.interrupted(interruption)
                case .resumption:
                    isInterrupted = false
                    lastError = decodingError
                    snapshots.handlers.resumed()
                case .failure(let error): throw error
                }
            }
        } catch {
            lastError = error
        }
    }

    /// Polls the remote source of the namespace and reads its files again. When this method returns, ``value`` has the
    /// result, also if ``follow(_:)`` is not running.
    /// - Parameter force: accepts an older version and a document that removes too many members, and ends the hold of a
    ///   rollback.
    /// - Returns: whether it succeeded; if not, the error is ``lastError``.
    @discardableResult
    public func refresh(force: Bool = false) async -> Bool {
        await call { [config] () async throws(LarderClientError) in
            try await config.refresh(force: force, timeout: nil)
        }
    }

    /// Makes the value at ``path`` equal to `value`. When this method returns, ``value`` has the resolved value, also if
    /// ``follow(_:)`` is not running.
    ///
    /// Only the members that differ from the current value become overrides, so the others still come from the source.
    /// If another client changes the value at the same time, the method compares again, as
    /// ``ConfigCalls/update(at:as:default:reason:attempts:_:)`` does. Members that the type does not have stay as they
    /// are. A value that cannot be decoded is replaced.
    /// - Parameters:
    ///   - value: the value.
    ///   - ttl: the time after which the overrides that this call sets expire; nil for no expiry.
    /// - Returns: whether it succeeded; if not, the error is ``lastError``.
    @discardableResult
    public func set(_ value: Value, ttl: Duration? = nil) async -> Bool where Value: Encodable {
        await call { [config, path, coding, defaultValue] () async throws(LarderClientError) in
            try await config.setDifferences(
                to: value, at: path, default: defaultValue, ttl: ttl, coding: coding)
        }
    }

    /// Reads the value at ``path`` from the agent, changes it, and writes only the differences, as
    /// ``ConfigCalls/update(at:as:default:reason:attempts:_:)`` does. When this method returns, ``value`` has the
    /// resolved value.
    ///
    /// ```swift
    /// struct Search: Codable { var limit = 10; var hosts: [String] = [] }
    /// let model = ConfigViewModel(client.config, at: "search", default: Search())
    /// await model.update { $0.hosts.append("c") }
    /// ```
    /// - Parameter change: changes the value, or the default of the model if the path has no value. It may be called
    ///   several times.
    /// - Returns: whether it succeeded; if not, the error is ``lastError``.
    @discardableResult
    public func update(_ change: (inout Value) -> Void) async -> Bool where Value: Encodable {
        await call { [config, path, coding, defaultValue] () async throws(LarderClientError) in
            try await config.update(
                at: path, default: defaultValue, reason: nil, coding: coding, change)
        }
    }

    /// Removes the overrides at and below ``path``, so that the values of the other layers take effect again. When this
    /// method returns, ``value`` has the resolved value. With an empty path, all overrides of the namespace are removed.
    /// - Returns: whether it succeeded; if not, the error is ``lastError``.
    @discardableResult
    public func unset() async -> Bool {
        await call { [config, path] () async throws(LarderClientError) in
            path.isEmpty
                ? try await config.unsetAll()
                : try await config.unset(at: path)
        }
    }

    /// Calls the agent, and then receives the current snapshot. Fails with `disconnected` if the connection breaks
    /// between the two, because the next snapshot may arrive much later.
    private func call<Result>(_ request: () async throws(LarderClientError) -> Result) async -> Bool {
        calls += 1
        defer { calls -= 1 }
        do throws(LarderClientError) {
            _ = try await request()
            let steps = config.snapshots(at: path, mode: .snapshot).failOnRefusal().makeSteps()
            while let step = try await steps.next() {
                switch step {
                case .snapshot(let snapshot):
                    await receive(snapshot)
                    return true
                case .interruption(let interruption):
                    throw LarderClientError(
                        .disconnected,
                        "the call succeeded, but its result could not be read: \(interruption.error.reason)",
                        advice: interruption.error.advice)
                case .failure(let error): throw error
                case .resumption: break
                }
            }
            if Task.isCancelled { throw LarderClientError(.cancelled, "the task was cancelled") }
            // The stream of a type of a test can end at once.
            await receive(try await currentSnapshot())
            return true
        } catch {
            lastError = error
            return false
        }
    }

    /// Reads the current snapshot without a stream.
    private func currentSnapshot() async throws(LarderClientError) -> LarderSnapshot {
        do throws(LarderClientError) {
            return try await config.snapshot(at: path, maximumAge: nil, staleIfError: nil)
        } catch {
            guard error.remoteError?.code == .notFound else { throw error }
            return LarderSnapshot(
                value: nil, revision: shownSnapshot?.revision ?? 0, epoch: shownSnapshot?.epoch ?? "", state: .fresh,
                namespace: namespace)
        }
    }

    /// Takes a snapshot. Returns when the model has its value, or has the value of a newer snapshot.
    ///
    /// ``call(_:)`` and ``follow(_:)`` receive snapshots independently of each other. Because a large value is decoded on
    /// another thread, a second snapshot can arrive in the meantime. A queue keeps the order of arrival.
    private func receive(_ newest: LarderSnapshot) async {
        let previous = lastReceipt
        let receipt = Task {
            await previous?.value
            await show(newest)
        }
        lastReceipt = receipt
        await receipt.value
        if lastReceipt == receipt { lastReceipt = nil }
    }

    /// Decodes and shows a snapshot, unless the model has a newer one.
    private func show(_ newest: LarderSnapshot) async {
        if let shown = shownSnapshot, shown.epoch == newest.epoch, shown.revision > newest.revision { return }
        let decoded: Result<Value?, LarderClientError>
        do throws(LarderClientError) {
            let place = ValuePlace(path: path, namespace: namespace)
            let new = try await newest.value?.decoded(
                Value.self, decoder: coding.decoder, over: defaultValue, at: place)
            decoded = .success(newest.value == nil ? defaultValue : new)
        } catch {
            decoded = .failure(error)
        }
        let replaced = DiscardedValue((value, shownSnapshot))
        let isSmall = shownSnapshot?.value?.isSmall ?? true
        withMutation(keyPath: \.snapshot) { shownSnapshot = newest }
        switch decoded {
        case .success(let new):
            value = new
            decodingError = nil
        case .failure(let error): decodingError = error
        }
        lastError = decodingError
        if !isSmall { await replaced.release() }
    }
}

/// A value that is released on another thread, because releasing many objects takes long.
private final class DiscardedValue<Value: Sendable>: Sendable {
    private let value: Mutex<Value?>

    init(_ value: Value) { self.value = Mutex(value) }

    @concurrent
    func release() async { _ = value.withLock { $0.take() } }
}
