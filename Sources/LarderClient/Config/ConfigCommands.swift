public import FoundationEssentials
public import LarderJSON
public import LarderProtocol

/// The methods `config.…`, as ``LarderClient/config``.
///
/// A path is written with dots (`"search.limit"`) or, where it begins with `/`, as a JSON Pointer (RFC 6901); the empty
/// path is the whole document. All throw ``LarderClientError``: `remote` with the agent's own error where it has one,
/// `invalidArgument` where the path is not well-formed.
public struct ConfigCommands: Sendable {
    let client: LarderClient

    /// Reads the value at a path as a type of your own.
    ///
    /// ```swift
    /// let limit = try await client.config.value(at: "search.limit", as: Int.self)
    ///
    /// struct Search: Decodable { var limit: Int; var hosts: [String] }
    /// let search = try await client.config.value(at: "search", as: Search.self)
    /// ```
    /// - Throws: `remote` with `notFound` where there is nothing at the path; `decodingFailed` where it is something else.
    public func value<T: Decodable>(
        at path: String = "", as type: T.Type = T.self, namespace: String = defaultNamespace,
        decoder: JSONDecoder = JSONDecoder()
    ) async throws(LarderClientError) -> T {
        let parameters = ConfigGet.Parameters(path: try JSONPath(argument: path), namespace: namespace)
        return try await client.call(ConfigGet.self, parameters).value.decode(type, decoder: decoder)
    }

    /// Reads the value at a path with its revision and state.
    ///
    /// ```swift
    /// let snapshot = try await client.config.snapshot(at: "search")
    /// print(snapshot.revision, snapshot.state, snapshot.value?["limit"]?.int ?? 10)
    /// ```
    /// - Parameters:
    ///   - maximumAge: how long ago the remote source may have confirmed it at most; the agent asks it now if need be. nil
    ///     for what is there, at once.
    ///   - staleIfError: with a maximum age, how old it may be where the source gives no usable answer; nil for an error
    ///     in that case.
    /// - Throws: `remote` with `notFound` where there is nothing at the path, with `upstreamFailed` or `rejected` where a
    ///   maximum age cannot be kept.
    public func snapshot(
        at path: String = "", namespace: String = defaultNamespace, maximumAge: Duration? = nil,
        staleIfError: Duration? = nil
    ) async throws(LarderClientError) -> ConfigSnapshot {
        let parameters = ConfigGet.Parameters(
            path: try JSONPath(argument: path), namespace: namespace, maximumAgeSeconds: maximumAge?.seconds,
            staleIfErrorSeconds: staleIfError?.seconds)
        let result = try await client.call(ConfigGet.self, parameters)
        return ConfigSnapshot(
            value: result.value, revision: result.revision, epoch: result.epoch, state: result.state,
            namespace: namespace)
    }

    /// Follows the value at a path: the current snapshot, then each new one.
    /// - Parameters:
    ///   - mode: with `.patch` the agent sends only what changed (RFC 7396) and the client puts it together: worth it for
    ///     large documents with small changes.
    ///   - onInterruption: told each time the stream lost its agent and how long it waits before it tries again.
    public func snapshots(
        at path: String = "", namespace: String = defaultNamespace, mode: ConfigSubscribe.Mode = .snapshot,
        onInterruption: @escaping @Sendable (ConfigInterruption) -> Void = { _ in }
    ) -> ConfigSnapshots {
        ConfigSnapshots(
            client: client,
            path: Result { () throws(LarderClientError) in try JSONPath(argument: path) },
            namespace: namespace, mode: mode, onInterruption: onInterruption)
    }

    /// Sets a value above every other layer. ``replaceAll(with:ttl:namespace:)`` sets the whole document.
    ///
    /// ```swift
    /// try await client.config.set("search.limit", to: 25)
    /// try await client.config.set("search.hosts", to: ["a", "b"], ttl: .seconds(600))
    /// ```
    /// - Parameters:
    ///   - value: an object is merged with what the lower layers hold; null hides what they hold.
    ///   - ttl: after how long the override ends by itself, to the millisecond; nil for never.
    /// - Throws: `remote` with `invalidParams` if the path is empty.
    @discardableResult
    public func set(
        _ path: String, to value: JSONValue, ttl: Duration? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigSet.Parameters(
            path: try JSONPath(argument: path), value: value, namespace: namespace, ttlMilliseconds: ttl?.milliseconds)
        return try await client.call(ConfigSet.self, parameters)
    }

    /// Sets an encodable value above every other layer; see ``set(_:to:ttl:namespace:)``.
    ///
    /// ```swift
    /// try await client.config.set("search", encoding: Search(limit: 25, hosts: []))
    /// ```
    @discardableResult
    public func set(
        _ path: String, encoding value: some Encodable, ttl: Duration? = nil, namespace: String = defaultNamespace,
        encoder: JSONEncoder = JSONEncoder()
    ) async throws(LarderClientError) -> ConfigChange {
        let json: JSONValue
        do {
            json = try JSONValue(parsing: Array(encoder.encode(value)))
        } catch {
            throw LarderClientError(.invalidArgument, "the value cannot be encoded as JSON: \(error)")
        }
        return try await set(path, to: json, ttl: ttl, namespace: namespace)
    }

    /// Replaces everything that was set, at whatever path, by the members of an object.
    ///
    /// ```swift
    /// try await client.config.replaceAll(with: ["search": ["limit": 25]])
    /// ```
    /// - Parameters:
    ///   - value: an object, which is merged with what the lower layers hold.
    ///   - ttl: after how long it ends by itself, to the millisecond; nil for never.
    @discardableResult
    public func replaceAll(
        with value: JSONValue, ttl: Duration? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigSet.Parameters(
            path: JSONPath([]), value: value, namespace: namespace, ttlMilliseconds: ttl?.milliseconds,
            replaceAll: true)
        return try await client.call(ConfigSet.self, parameters)
    }

    /// Removes everything that was set, so that the other layers show again.
    @discardableResult
    public func unsetAll(namespace: String = defaultNamespace) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigUnset.Parameters(path: JSONPath([]), namespace: namespace, all: true)
        return try await client.call(ConfigUnset.self, parameters)
    }

    /// Removes what was set at a path and below it, so that the other layers show again. ``unsetAll(namespace:)`` removes
    /// everything.
    /// - Throws: `remote` with `invalidParams` if the path is empty.
    @discardableResult
    public func unset(
        _ path: String, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigUnset.Parameters(path: try JSONPath(argument: path), namespace: namespace)
        return try await client.call(ConfigUnset.self, parameters)
    }

    /// Hands the agent a whole document as the namespace's remote layer.
    ///
    /// ```swift
    /// try await client.config.push(["search": ["limit": 10]], version: "2026-01-31.1")
    /// ```
    /// - Parameters:
    ///   - document: an object.
    ///   - version: what its maker calls its version; one older than the version held is refused unless forced.
    @discardableResult
    public func push(
        _ document: JSONValue, version: String? = nil, force: Bool = false, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigPush.Parameters(
            document: document, namespace: namespace, version: version, force: force)
        return try await client.call(ConfigPush.self, parameters)
    }

    /// Asks the namespace's sources now, and waits for what they say.
    /// - Parameter force: takes what the source says even if its version is older than the one held.
    /// - Throws: `remote` with `upstreamFailed` or `rejected`; the last good snapshot stays.
    @discardableResult
    public func refresh(
        force: Bool = false, namespace: String = defaultNamespace, timeout: Duration? = nil
    ) async throws(LarderClientError) -> ConfigRefresh.Result {
        try await client.call(
            ConfigRefresh.self, ConfigRefresh.Parameters(namespace: namespace, force: force), timeout: timeout)
    }

    /// Each namespace's state, layers and source, and what was refused last and why.
    /// - Parameter namespace: the namespace; nil for all.
    public func status(namespace: String? = nil) async throws(LarderClientError) -> [ConfigStatus.Namespace] {
        try await client.call(ConfigStatus.self, ConfigStatus.Parameters(namespace: namespace)).namespaces
    }
}
