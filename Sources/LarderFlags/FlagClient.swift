// `import LarderFlags` is enough to create a client and evaluate flags.
@_exported public import LarderClientCore
import LarderFlagRules
import LarderJSON

extension LarderClient {
    /// The feature flags in the member `flags` of the namespace `default`.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// try await client.flags.ready()
    /// if client.flags.bool("new-checkout", default: false, context: ["targetingKey": "user-1"]) { print("new") }
    /// ```
    public var flags: FlagClient { FlagClient(self, Self.defaultNamespace, member: "flags") }
}

/// Evaluates the feature flags of a namespace inside the process. Available as `LarderClient.flags`.
///
/// ```swift
/// import LarderFlags
///
/// let flags = client.flags["shop"]
/// try await flags.ready()
/// let color = flags.string("button-color", default: "gray", context: ["targetingKey": "user-1"])
/// ```
///
/// The first use starts to follow the namespace. The client then compiles the flags of each snapshot once, in the
/// background, as long as the client exists. An evaluation uses the newest compiled flags. It makes no request, never
/// waits and never throws: if there is no value, the result is the default. While the agent is away, the last flags
/// stay in use. Keep the value of this type instead of getting it from the client for each evaluation.
///
/// The context is an object with the facts that rules refer to. Its member `targetingKey`, a string, identifies the user,
/// device or session; `fractional` rules need it.
///
/// The client needs the right `read` in the namespace. With that right it has the whole document, so unlike the agent's
/// method `flag.evaluate`, it also evaluates flags that contain a secret.
public struct FlagClient: Sendable {
    let client: LarderClient
    let store: FlagStore
    /// The name of the namespace.
    public var namespace: String { store.namespace }
    /// The member of the document that contains the flags; empty if the whole document is in flagd's format.
    public var member: String { store.member }

    init(_ client: LarderClient, _ namespace: String, member: String) {
        self.client = client
        store = client.companion(JSONPath(["flags", namespace, member])) { FlagStore(namespace, member) }
    }

    /// The flags of another namespace or member.
    /// - Parameters:
    ///   - namespace: the name of the namespace.
    ///   - member: the member of the document that contains the flags, as in the setting `flags` of the namespace; empty
    ///     if the whole document is in flagd's format.
    public subscript(namespace: String, member member: String = "flags") -> FlagClient {
        FlagClient(client, namespace, member: member)
    }

    /// Waits until the flags of the first snapshot are compiled. Before that, each evaluation results in the default.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// do {
    ///     try await client.flags.ready(within: .seconds(2))
    /// } catch {
    ///     print("the defaults apply until the agent replies: \(error)")
    /// }
    /// ```
    /// - Parameter limit: the maximum time.
    /// - Throws: the last error of the agent or of the connection if there are no flags within the time, otherwise
    ///   `timeout`; `cancelled` if the task is cancelled. The client keeps trying, except after
    ///   `closed` and `invalidArgument`.
    public func ready(within limit: Duration = .seconds(5)) async throws(LarderClientError) {
        let (changes, poke) = store.changes()
        let timer = Task { [clock = client.configuration.clock] in
            if (try? await clock.sleep(for: limit)) != nil { poke.finish() }
        }
        defer { timer.cancel() }
        var iterator = changes.makeAsyncIterator()
        repeat {
            if store.compiled(following: client) != nil { return }
        } while await iterator.next() != nil
        if Task.isCancelled { throw LarderClientError(.cancelled, "the task was cancelled") }
        throw store.problem
            ?? LarderClientError(
                .timeout, "namespace \"\(namespace)\" has no flags after \(limit)", advice: "check the agent's log")
    }

    /// Returns the value of a flag whose variants are Booleans.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let isOn = client.flags.bool("new-checkout", default: false, context: ["targetingKey": "user-1"])
    /// ```
    /// - Parameters:
    ///   - flag: the name of the flag.
    ///   - value: the value if the flag is missing, malformed, disabled or of another type, or has no default variant.
    ///   - context: an object with the facts that the rule refers to.
    public func bool(_ flag: String, default value: Bool, context: JSONValue = [:]) -> Bool {
        details(flag, default: value, context: context).value
    }

    /// Returns the value of a flag whose variants are strings. The parameters are those of ``bool(_:default:context:)``.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let color = client.flags.string("button-color", default: "gray", context: ["email": "a@example.org"])
    /// ```
    public func string(_ flag: String, default value: String, context: JSONValue = [:]) -> String {
        details(flag, default: value, context: context).value
    }

    /// Returns the value of a flag whose variants are integers. The parameters are those of ``bool(_:default:context:)``.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let limit = client.flags.int("result-limit", default: 10)
    /// ```
    public func int(_ flag: String, default value: Int, context: JSONValue = [:]) -> Int {
        details(flag, default: value, context: context).value
    }

    /// Returns the value of a flag whose variants are numbers. The parameters are those of ``bool(_:default:context:)``.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let ratio = client.flags.double("sample-ratio", default: 0.1)
    /// ```
    public func double(_ flag: String, default value: Double, context: JSONValue = [:]) -> Double {
        details(flag, default: value, context: context).value
    }

    /// Returns the value of a flag whose variants are objects or arrays. The parameters are those of
    /// ``bool(_:default:context:)``.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let theme = client.flags.object("theme", default: ["dark": false])
    /// print(theme["dark"]?.bool ?? false)
    /// ```
    public func object(_ flag: String, default value: JSONValue, context: JSONValue = [:]) -> JSONValue {
        details(flag, default: value, context: context).value
    }

    /// Evaluates a flag, and returns its value with the reason for it. The parameters are those of
    /// ``bool(_:default:context:)``; the type of the default is the type of the flag.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// let details = client.flags.details("result-limit", default: 10, context: ["targetingKey": "user-1"])
    /// print(details.value, details.variant ?? "default", details.reason, details.errorMessage ?? "")
    /// ```
    public func details<Value: FlagValue>(
        _ flag: String, default value: Value, context: JSONValue = [:]
    ) -> FlagDetails<Value> {
        let compiled = store.compiled(following: client)
        return FlagDetails(flag, default: value, compiled?.outcome(flag, Value.self, context), compiled?.revision)
    }

    /// Returns a stream of a flag's outcomes for one context: the current one at once, then each one that differs in value,
    /// variant, reason or error code.
    ///
    /// ```swift
    /// import LarderFlags
    ///
    /// try await client.flags.ready()
    /// for await details in client.flags.outcomes("new-checkout", default: false, context: ["targetingKey": "till-1"]) {
    ///     print(details.value, details.reason)
    /// }
    /// ```
    ///
    /// The flag is evaluated again after each snapshot, and every 60 s if its rule refers to `$flagd.timestamp`. A slow
    /// consumer gets the newest outcome next. The stream ends when the task is cancelled or the client is closed. The
    /// parameters are those of ``details(_:default:context:)``.
    public func outcomes<Value: FlagValue>(
        _ flag: String, default value: Value, context: JSONValue = [:]
    ) -> FlagOutcomes<Value> {
        FlagOutcomes(flags: self, flag: flag, defaultValue: value, context: context)
    }
}
