import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol

extension ArgumentHelp {
    /// The help of `--socket`.
    static let agentSocket = ArgumentHelp(
        "The path of the agent socket, or @NAME for an abstract socket.",
        discussion:
            "Default: $LARDER_SOCKET, else $XDG_RUNTIME_DIR/larder/larder.sock if it exists, else /run/larder/larder.sock.",
        valueName: "path")
}

/// The options that every verb has: how to reach the agent.
struct ConnectionOptions: ParsableArguments {
    @Option(help: .agentSocket, completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "The longest time to wait for a reply, such as 500ms, 10s or 2m. Default: 30s.", valueName: "time"),
        transform: TimeSpan.parse)
    var timeout = TimeSpan(.seconds(30))

    /// Creates the commands in messages, with the `--socket` of these options.
    var hints: Hints { Hints(socket: socket) }

    /// Connects, runs `body` and closes the connection. A call that waits for the reply of an agent that systemd cannot
    /// start fails after a few seconds (``ServiceInquiry``).
    /// - Parameters:
    ///   - maximumReplyBytes: the maximum length of a reply; nil for the default of the library
    ///   - place: what `body` reads. If there is no value, the message of the failure gets a suggestion.
    /// - Throws: ``Failure`` if a call fails, and the errors of `body`.
    func withClient(
        maximumReplyBytes: Int? = nil, reading place: PathAdvice.Place? = nil,
        _ body: (LarderClient) async throws -> Void
    ) async throws {
        var configuration = LarderClient.Configuration()
        configuration.timeout = timeout.duration
        if let maximumReplyBytes { configuration.maximumReplyBytes = maximumReplyBytes }
        do {
            try await LarderClient.withConnection(socket: socket, configuration: configuration) { client in
                let inquiry = Task { [socket] in await ServiceInquiry.run(for: client, socket: socket) }
                defer { inquiry.cancel() }
                do {
                    try await body(client)
                } catch {
                    let failure = (error as? LarderClientError).map { Failure($0, hints) } ?? error as? Failure
                    if let failure, let code = failure.remote?.code, [.storageFailed, .cacheFull].contains(code),
                        let info = try? await client.call(AgentInfo.self, NoParameters()),
                        let advice = DiskCheck.advice(VolumeFacts.all(of: info), hints)
                    {
                        throw failure.adding(advice)
                    }
                    guard let failure, failure.status == .notFound, let advice = await place?.advice(over: client)
                    else { throw error }
                    throw failure.adding(advice)
                }
            }
        } catch let error as LarderClientError {
            throw Failure(error, hints)
        }
    }
}

/// The options of every verb that prints a result of the agent.
struct AgentOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the agent's complete result as one line of JSON.")
    var json = false

    /// Calls a method and prints its result: the complete JSON with `--json`, else the text that `text` returns.
    /// - Parameters:
    ///   - timeout: the timeout of the call; nil for `--timeout`.
    ///   - text: formats the result. Nil prints nothing.
    func printResult<Method: WireMethod>(
        of method: Method.Type, _ parameters: Method.Parameters, timeout: Duration? = nil,
        _ text: (Method.Result) throws -> String?
    ) async throws {
        try await connection.withClient { client in
            try await printResult(of: method, parameters, over: client, timeout: timeout, text)
        }
    }

    /// Like ``printResult(of:_:timeout:_:)``, over an open connection.
    /// - Returns: the result as received.
    @discardableResult
    func printResult<Method: WireMethod>(
        of method: Method.Type, _ parameters: Method.Parameters, over client: LarderClient, timeout: Duration? = nil,
        _ text: (Method.Result) throws -> String?
    ) async throws -> JSONValue {
        // Print the JSON as received, so that `--json` includes members that a newer agent adds.
        let params = JSONValue.building { parameters.write(to: &$0) }
        try await checkSize(of: params, over: client)
        let result = try await client.call(Method.name, params: params, timeout: timeout)
        try print(result, of: method, text)
        // The dry run of a change that the schema would reject has the exit status of that change.
        if result["dryRun"]?.bool == true, result["errors"] != nil { ExitStatus.schemaViolation.endThisProcess() }
        return result
    }

    /// Prints a result of a method: the complete JSON with `--json`, else the text that `text` returns.
    func print<Method: WireMethod>(
        _ result: JSONValue, of method: Method.Type, _ text: (Method.Result) throws -> String?
    ) throws {
        if json { return try Output.line(result.compactText) }
        let read = try readable { () throws(WireError) in try Method.Result(from: result) }
        if let text = try text(read) { try Output.line(text) }
    }
}

extension AgentOptions {
    /// The size of parameters that is sent without a check. The limit of the agent is higher unless it was lowered.
    private static let uncheckedBytes = 512 << 10

    /// Checks that the agent would accept the line of a request. Otherwise the client would send megabytes that the
    /// agent discards.
    /// - Throws: ``Failure`` if the parameters alone exceed the limit.
    private func checkSize(of params: JSONValue, over client: LarderClient) async throws {
        let bytes = params.textSize
        guard bytes > Self.uncheckedBytes, let limits = try? await client.call(AgentInfo.self, NoParameters()).limits
        else { return }
        if bytes > limits.lineBytes { throw Failure.tooLong(bytes: bytes, limit: limits.lineBytes) }
    }
}

/// Decodes a result of the agent with `read`.
/// - Throws: ``Failure`` if this version cannot read the result.
func readable<Value>(_ read: () throws(WireError) -> Value) throws(Failure) -> Value {
    do throws(WireError) {
        return try read()
    } catch {
        throw Failure(.failure, "the agent's result is invalid: \(error.detail); use --json to see it")
    }
}

/// The option of the verbs that act on a namespace.
struct NamespaceOption: ParsableArguments {
    @Option(name: .shortAndLong, help: ArgumentHelp("The namespace.", valueName: "name"), completion: .namespace)
    var namespace = defaultNamespace
}

/// The options for the format of values.
struct FormatOptions: ParsableArguments {
    @Flag(help: "Print objects and arrays on one line.")
    var raw = false

    var format: ValueFormat { raw ? .compact : .pretty }
}

struct PathArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "A path such as search.limit, or a JSON Pointer such as /search/limit. Default: the whole document.",
            valueName: "path"),
        completion: .configurationPath)
    var text = ""

    /// The parsed path.
    var path: JSONPath {
        get throws(Failure) { try Self.parse(text) }
    }

    static func parse(_ text: String) throws(Failure) -> JSONPath {
        do {
            return try JSONPath(parsing: text)
        } catch {
            throw Failure(
                .usage,
                "\"\(text)\" is not a valid path: \(error.reason); write a path such as search.limit, or a JSON Pointer "
                    + "such as /search/limit")
        }
    }
}

extension PathArgument {
    /// Rejects an empty path, which usually comes from an unset shell variable.
    /// - Parameter alternative: advice for users who want to change the whole document
    static func rejectEmpty(_ path: String, _ alternative: String) throws {
        if path.isEmpty {
            throw ValidationError("the path is empty, possibly because a shell variable is unset; \(alternative)")
        }
    }
}

/// Suggests what to write instead of a path that has no value.
enum PathAdvice {
    /// The number of members of an object above which their names are not compared, because that would take long.
    private static let maxNames = 10_000

    /// A path as the user wrote it, in a namespace.
    struct Place {
        let path: String
        let namespace: String

        /// Reads the document, and returns a suggestion if the path has no value in it; nil if there is no suggestion,
        /// or if the document cannot be read.
        func advice(over client: LarderClient) async -> String? {
            let parameters = ConfigGet.Parameters(path: JSONPath([]), namespace: namespace)
            let document = try? await client.call(ConfigGet.self, parameters).value
            return document.flatMap { PathAdvice.text(for: path, in: $0) }
        }
    }

    /// Returns a suggestion for a path that has no value in a document; nil without one.
    static func text(for path: String, in document: JSONValue) -> String? {
        guard let segments = try? JSONPath(parsing: path).segments else { return nil }
        if let similar = similar(to: segments, in: document) { return "did you mean \(similar.description.shellWord)?" }
        if path.contains("=") { return "to change a value, write larder set PATH VALUE" }
        if segments.contains(where: { withIndexes($0).count > 1 }) { return "write an array index as in servers.0" }
        return nil
    }

    /// The path that the segments are probably meant to be.
    private static func similar(to segments: [String], in document: JSONValue) -> JSONPath? {
        let indexed = segments.flatMap(withIndexes)
        if indexed.count > segments.count {
            return document.value(at: JSONPath(indexed)).map { _ in JSONPath(indexed) }
        }
        var value = document
        for (place, segment) in segments.enumerated() {
            if let next = value.value(at: JSONPath([segment])) {
                value = next
                continue
            }
            guard value.kind == .object else { return nil }
            let (known, rest) = (Array(segments[..<place]), segments[place...])
            // A name that contains dots, such as `flat.key`, is only a member in a JSON Pointer.
            for count in stride(from: rest.count, to: 1, by: -1) {
                let joined = rest.prefix(count).joined(separator: ".")
                if value[joined] != nil { return JSONPath(known + [joined] + rest.dropFirst(count)) }
            }
            guard value.count <= maxNames else { return nil }
            let name = NearestName.suggestion(for: segment, among: value.members.map { $0.name })
            return name.map { JSONPath(known + [$0] + rest.dropFirst()) }
        }
        return nil
    }

    /// The segments that a segment with array indexes is probably meant to be: `servers[0]` is `servers` and `0`.
    private static func withIndexes(_ segment: String) -> [String] {
        guard segment.hasSuffix("]"), let start = segment.firstIndex(of: "["), start > segment.startIndex else {
            return [segment]
        }
        let indexes = segment[segment.index(after: start)...].dropLast().split(
            separator: "][", omittingEmptySubsequences: false)
        return [String(segment[..<start])] + indexes.map(String.init)
    }
}

extension WireConfigChange {
    /// A description of the change for people.
    var summary: String {
        let outcome = changed ? "revision \(revision)" : "unchanged at revision \(revision)"
        if let expiresAt, lifetimeChanged || !changed {
            let rest = expiresAt.milliseconds - Timestamp.now.milliseconds
            return "\(outcome); the override expires \(Human.ahead(milliseconds: rest))"
        }
        return lifetimeChanged ? "\(outcome); the override no longer expires" : outcome
    }
}

/// Selects the part of the configuration that a program gets, and how its environment variables are named.
struct SelectionOptions: ParsableArguments {
    @Option(
        name: .customLong("path"),
        help: ArgumentHelp(
            "Use only the value at this path, such as search or /search. The names in the output are relative to it.",
            valueName: "path"), completion: .configurationPath)
    var text = ""

    @Option(help: ArgumentHelp("Begin the name of each variable with this text, such as APP_.", valueName: "text"))
    var prefix = ""

    @OptionGroup var namespace: NamespaceOption

    func validate() throws {
        guard prefix.isEmpty || EnvironmentMapping.isPrefix(prefix) else {
            throw ValidationError(
                "--prefix must consist of letters, digits and _ and must not begin with a digit, but is \"\(prefix)\"")
        }
    }

    /// The parsed path.
    var path: JSONPath {
        get throws(Failure) { try PathArgument.parse(text) }
    }

    /// The subject of the verb.
    var place: PathAdvice.Place { PathAdvice.Place(path: text, namespace: namespace.namespace) }

    var mapping: EnvironmentMapping { EnvironmentMapping(prefix: prefix) }

    /// Returns the value of a snapshot.
    /// - Throws: ``Failure`` if there is no value at the path.
    func value(of snapshot: LarderSnapshot, at path: JSONPath) throws(Failure) -> JSONValue {
        guard let value = snapshot.value else {
            throw Failure(
                .notFound,
                "there is no value at \"\(path)\" in namespace \"\(snapshot.namespace)\"; correct --path, or set a value"
            )
        }
        return value
    }
}
