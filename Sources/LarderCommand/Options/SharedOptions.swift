import ArgumentParser
import LarderClient

extension ArgumentHelp {
    /// The help of `--socket`.
    static let agentSocket = ArgumentHelp(
        "The agent's socket.",
        discussion:
            "@NAME for an abstract one. Else $LARDER_SOCKET, else $XDG_RUNTIME_DIR/larder/larder.sock if it exists, else /run/larder/larder.sock.",
        valueName: "path")
}

/// How the agent is reached: what every verb takes.
struct ConnectionOptions: ParsableArguments {
    @Option(help: .agentSocket)
    var socket: String?

    @Option(
        help: ArgumentHelp("How long to wait for an answer: 500ms, 10s, 2m.", valueName: "time"),
        transform: TimeSpan.parse)
    var timeout = TimeSpan(.seconds(30))

    /// Makes commands for the same agent.
    var hints: Hints { Hints(socket: socket) }

    /// Connects, runs `body` and closes the connection.
    /// - Parameter maximumReplyBytes: the longest reply; nil for the library's default
    /// - Throws: ``Failure`` for a failed call; what `body` throws otherwise.
    func withClient(maximumReplyBytes: Int? = nil, _ body: (LarderClient) async throws -> Void) async throws {
        var configuration = LarderClient.Configuration()
        configuration.timeout = timeout.duration
        if let maximumReplyBytes { configuration.maximumReplyBytes = maximumReplyBytes }
        do {
            try await LarderClient.withConnection(socket: socket, configuration: configuration, body)
        } catch let error as LarderClientError {
            throw Failure(error, hints)
        }
    }
}

/// What every verb takes that prints an answer of the agent.
struct AgentOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the agent's whole result as one line of JSON.")
    var json = false

    /// Calls a method and prints its result: the whole of it with `--json`, else what `text` makes of it.
    /// - Parameters:
    ///   - timeout: how long the call may take; nil for `--timeout`.
    ///   - text: makes nil of a result that there is nothing to print of.
    func printResult<Method: WireMethod>(
        of method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil,
        _ text: (Method.Result) throws -> String?
    ) async throws {
        try await connection.withClient { client in
            try await printResult(of: method, parameters, over: client, timeout: timeout, text)
        }
    }

    /// The same over a connection that is there already.
    func printResult<Method: WireMethod>(
        of method: Method.Type, _ parameters: Method.Parameters, over client: LarderClient, timeout: Duration? = nil,
        _ text: (Method.Result) throws -> String?
    ) async throws {
        // The result as it came: with --json nothing that a newer agent adds is lost.
        let params = JSONValue.building { parameters.write(to: &$0) }
        let result = try await client.call(Method.name, params: params, timeout: timeout)
        if json { return try Output.line(result.compactText) }
        let read = try readable { () throws(WireError) in try Method.Result(from: result) }
        if let text = try text(read) { try Output.line(text) }
    }
}

/// Reads a result of the agent.
/// - Throws: ``Failure`` where it is not as this version knows it.
func readable<Value>(_ read: () throws(WireError) -> Value) throws(Failure) -> Value {
    do throws(WireError) {
        return try read()
    } catch {
        throw Failure(.failure, "the agent's result cannot be read: \(error.detail); try --json")
    }
}

/// The namespace, for the verbs that act on one.
struct NamespaceOption: ParsableArguments {
    @Option(name: .shortAndLong, help: ArgumentHelp("The namespace.", valueName: "name"))
    var namespace = defaultNamespace
}

/// How values are printed.
struct FormatOptions: ParsableArguments {
    @Flag(help: "Print objects and arrays in one line.")
    var raw = false

    var format: ValueFormat { raw ? .compact : .pretty }
}

struct PathArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "search.limit, or /search/limit as a JSON Pointer; left out for the whole document.", valueName: "path"))
    var text = ""

    /// The path itself.
    var path: JSONPath {
        get throws(Failure) { try Self.parse(text) }
    }

    static func parse(_ text: String) throws(Failure) -> JSONPath {
        do {
            return try JSONPath(parsing: text)
        } catch {
            throw Failure(.usage, "\"\(text)\" is no path: \(error.reason); write search.limit or /search/limit")
        }
    }
}

extension PathArgument {
    /// Refuses an empty path, which an unset variable of the shell leaves.
    /// - Parameter alternative: how the whole document is changed
    static func refuseEmpty(_ path: String, _ alternative: String) throws {
        if path.isEmpty { throw ValidationError("the path is empty, perhaps by an unset variable; \(alternative)") }
    }
}

extension ConfigChange {
    /// What a change came to, for people.
    var summary: String {
        let outcome = changed ? "revision \(revision)" : "unchanged at revision \(revision)"
        if let expiresAt, lifetimeChanged || !changed {
            let rest = expiresAt.milliseconds - Timestamp.now.milliseconds
            return "\(outcome); the override ends \(Human.ahead(milliseconds: rest))"
        }
        return lifetimeChanged ? "\(outcome); the override is now permanent" : outcome
    }
}
