import ArgumentParser
import LarderClient

/// `larder render TEMPLATE OUTPUT`
struct RenderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "render",
        abstract: "Write the configuration to a file, through a template or as a whole.",
        discussion: """
            The output is replaced in one step and only when it changes: a new file is written beside it with its final \
            owner and mode, checked with --check, and renamed. A check that fails keeps the old file (exit status 7). \
            --exec runs after a change, and after nothing else; where it fails the exit status is 1 and the output stays \
            changed, so that the next larder render does not run it again: that is the caller's to do. With --watch it is \
            tried again, with growing pauses, until it succeeds. Both commands are run by /bin/sh; {} and $LARDER_FILE are \
            the file's path, for --check that of the new file. An existing file keeps its owner and mode unless --owner \
            and --mode say otherwise; a new one is 0640. - prints the result.

            Templates are Mustache: {{search.limit}} prints a value (objects and arrays as JSON, nothing is escaped), \
            {{#name}}…{{/name}} is repeated for each element of an array and left out for false and for what is not \
            there, {{^name}}…{{/name}} is its opposite, {{! a comment }}. {{.}} is the innermost value, and {{.name}} is \
            looked for there only. A name that leads nowhere is an error unless it \
            ends with a question mark: {{name?}}. Functions: json(name) prints any value as JSON, strings in quotes; \
            enumerated(object) and sorted(object) make a list of key and value; count, empty, first, last, reversed, \
            uppercased, lowercased, capitalized; plusone, minusone, even, odd, equalzero for integers; within a list \
            index(), first(), last(), even() and odd(). {{=<% %>=}} changes the delimiters, {{%CONTENT_TYPE:HTML}} has \
            values escaped for HTML; within a section both count until its end. With --watch the template is read again for \
            each new snapshot, the commands run at most once a second, and what fails after the first time \
            is noted on standard error; a namespace that leaves the settings then, or that they do not let the user read any \
            more, is asked for until it is back.

            --json writes the whole as JSON and --env as a file for shells (set -a; . FILE) and for EnvironmentFile= of \
            systemd, with the names of larder exec; - is then the default.

            EXAMPLES:
              larder render app.conf.mustache /etc/app.conf --mode 0640 --owner root:app
              larder render nginx.mustache /etc/nginx/nginx.conf --watch \\
                  --check 'nginx -t -c {}' --exec 'systemctl reload nginx'
              larder render --json --path search
              larder render --env /run/app.env --prefix APP_ --watch
            """)

    @Argument(
        help: ArgumentHelp(
            "The template and the output; the output alone with --json or --env.", valueName: "template> <output"))
    var files: [String] = []

    @Flag(help: "Write the whole configuration as JSON, without a template.")
    var json = false

    @Flag(help: "Write the whole configuration as environment variables, without a template.")
    var env = false

    @Flag(help: "Stay, and write the output again when the configuration changes.")
    var watch = false

    @Option(help: ArgumentHelp("Accept the new file only if this succeeds.", valueName: "command"))
    var check: String?

    @Option(help: ArgumentHelp("Run this after the output has changed.", valueName: "command"))
    var exec: String?

    @Option(help: ArgumentHelp("The output's permissions, in octal.", valueName: "mode"))
    var mode: FileMode?

    @Option(help: ArgumentHelp("The output's user and group, by names or numbers.", valueName: "user:group"))
    var owner: FileOwner?

    @OptionGroup var source: SelectionOptions
    @OptionGroup var connection: ConnectionOptions

    func validate() throws {
        if json && env { throw ValidationError("--json and --env exclude each other; choose one") }
        if json || env {
            if files.count > 1 { throw ValidationError("--json and --env take the output only, and no template") }
        } else if files.count != 2 {
            throw ValidationError("name the template and the output, or write all of it with --json or --env")
        }
        if !env, !source.prefix.isEmpty { throw ValidationError("--prefix is for --env") }
        if output == "-", check != nil || exec != nil || mode != nil || owner != nil {
            throw ValidationError("--check, --exec, --mode and --owner are for a file; name the output")
        }
    }

    /// The shortest time from one run of the commands to the next.
    private static let pause = Duration.seconds(1)

    /// How long an agent may take to say whether there is something newer.
    private static let patience = Duration.seconds(2)

    /// Where the result goes; `-` for standard output.
    var output: String { (json || env ? files.first : files.last) ?? "-" }

    func run() async throws {
        let path = try source.path
        _ = try owner?.numbers()
        if output == "-" { Output.endWhenReaderCloses() }
        try await connection.withClient { client in
            guard watch else {
                let parameters = ConfigGet.Parameters(path: path, namespace: source.namespace.namespace)
                let value = try await client.call(ConfigGet.self, parameters).value
                if try await write(value, at: path, over: client) { try await rendered.runExec() }
                return
            }
            try await follow(client, path)
        }
    }

    private func follow(_ client: LarderClient, _ path: JSONPath) async throws {
        var isFirst = true
        // Whether the command is still to succeed for what the output holds.
        var isDue = false
        var retry: Task<Bool, Never>?
        try await client.follow(source) { snapshot in
            if let running = retry.take() {
                running.cancel()
                if await running.value { isDue = false }
            }
            var failure: Failure?
            var isReplaced = true
            var isWritten = false
            do {
                isReplaced = try await write(source.value(of: snapshot, at: path), at: path, over: client)
                isWritten = true
                if isReplaced { isDue = exec != nil }
                if isDue { try await rendered.runExec() }
                isDue = false
            } catch let caught as Failure where !isFirst {
                Output.note(caught.message)
                failure = caught
            }
            isFirst = false
            await client.acknowledge(snapshot, failure)
            if isDue {
                let isRefused = !isWritten
                retry = Self.retry(rendered) { if !isRefused { await client.acknowledge(snapshot, nil) } }
            }
            // What comes meanwhile is joined: a configuration that flaps must not make the commands do so.
            if isReplaced, check != nil || exec != nil { try await Task.sleep(for: Self.pause) }
        }
    }

    private func text(of value: JSONValue, at path: JSONPath) throws(Failure) -> String {
        if json { return value.prettyText + "\n" }
        if env { return try source.mapping.variables(of: value, at: path).fileText }
        let bytes = try Input.contents(of: files[0])
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(files[0]) is not UTF-8; save it as UTF-8")
        }
        return try ConfigTemplate(text, name: files[0]).render(value)
    }

    /// Brings the output up to date.
    /// - Returns: whether it had another content before.
    private func write(_ value: JSONValue, at path: JSONPath, over client: LarderClient) async throws -> Bool {
        let text = try text(of: value, at: path)
        if output == "-" {
            try Output.text(text)
            return false
        }
        return try await rendered.write(text) {
            // Where the agent is gone, or the newest cannot be rendered, what was asked for stands.
            let parameters = ConfigGet.Parameters(path: path, namespace: source.namespace.namespace)
            let newest = try? await client.call(ConfigGet.self, parameters, timeout: Self.patience).value
            return newest.flatMap { try? self.text(of: $0, at: path) }
        }
    }

    private var rendered: RenderedOutput {
        RenderedOutput(
            path: output, mode: mode, owner: owner, check: check.map { ShellCommand(text: $0) },
            exec: exec.map { ShellCommand(text: $0) })
    }

    /// Runs the command after a change again and again, with growing pauses.
    /// - Returns: a task that ends when it succeeded, or was cancelled; then its value is false.
    private static func retry(
        _ rendered: RenderedOutput, _ onSuccess: @escaping @Sendable () async -> Void
    ) -> Task<Bool, Never> {
        Task {
            let backoff = Backoff(base: pause, cap: .seconds(60))
            var attempt = 0
            while !Task.isCancelled {
                // The sleep ends early only when the task is cancelled.
                try? await Task.sleep(for: pause + backoff.delay(beforeAttempt: attempt))
                if Task.isCancelled { break }
                attempt += 1
                do {
                    try await rendered.runExec()
                } catch { continue }
                Output.note("the command after \(rendered.path) has succeeded")
                await onSuccess()
                return true
            }
            return false
        }
    }
}
