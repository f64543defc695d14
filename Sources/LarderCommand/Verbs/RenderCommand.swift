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
            --exec runs after a change, and after nothing else. If it fails, the previous file is restored (exit status 1), \
            but the command is not run again for it; with --watch the change is tried again, with growing pauses, until it \
            succeeds. A signal that ends larder before the command has succeeded restores the previous file, too; after SIGKILL \
            or a crash of the machine the next call does.

            Both commands are run by /bin/sh. $LARDER_FILE, and {} as a word of its own, are the file's path, for --check \
            that of the new file; --check must have one of them. A program that can only check its whole configuration, \
            such as nginx -t, is run with --check-in-place: the new file is put in place, checked there, and the previous one \
            restored if the check fails. Readers always find the one or the other, whole. An existing file keeps its owner \
            and mode unless --owner and --mode say otherwise; a new one is 0640. - prints the result.

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
              larder render sshd.mustache /etc/ssh/sshd_config --check 'sshd -t -f {}' --exec 'systemctl reload ssh'
              larder render shop.mustache /etc/nginx/conf.d/shop.conf --watch \\
                  --check 'nginx -t' --check-in-place --exec 'systemctl reload nginx'
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

    @Flag(help: "Put the new file in place before the check, and restore the previous one if the check fails.")
    var checkInPlace = false

    @Option(
        help: ArgumentHelp(
            "Run this after the output has changed; restore the previous file if it fails.", valueName: "command"))
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
        if checkInPlace, check == nil { throw ValidationError("--check-in-place says how --check is run; add --check") }
        if let check, !checkInPlace, !ShellCommand(text: check).namesFile {
            throw ValidationError(
                "--check '\(check)' would judge the file that is in place, not the new one; name the new one in it, by {} as a "
                    + "word of its own or $LARDER_FILE, or add --check-in-place if the program can only check its whole "
                    + "configuration")
        }
    }

    /// The path of the output; `-` for standard output.
    var output: String { (json || env ? files.first : files.last) ?? "-" }

    func run() async throws {
        let rendering = Rendering(form: form, path: try source.path)
        _ = try owner?.numbers()
        if output == "-" { Output.endWhenReaderCloses() }
        try await connection.withClient { client in
            let rendered = RenderedConfiguration(
                rendering: rendering, output: rendered, namespace: source.namespace.namespace, client: client)
            if watch { return try await follow(rendered) }
            let parameters = ConfigGet.Parameters(path: rendering.path, namespace: source.namespace.namespace)
            let value = try await client.call(ConfigGet.self, parameters).value
            do {
                _ = try await write(value, rendered)
            } catch let error as RenderedOutput.ExecFailure {
                throw error.failure
            }
        }
    }

    private func follow(_ rendered: RenderedConfiguration) async throws {
        var isFirst = true
        var isExecDue = false
        var retry: Task<Bool, Never>?
        try await rendered.client.follow(source) { snapshot in
            if let running = retry.take() {
                running.cancel()
                if await running.value { isExecDue = false }
            }
            var failure: Failure?
            var isReplaced = true
            do {
                let value = try source.value(of: snapshot, at: rendered.rendering.path)
                do {
                    isReplaced = try await write(value, rendered, isExecDue: isExecDue)
                    isExecDue = false
                } catch let error as RenderedOutput.ExecFailure {
                    isExecDue = true
                    if !isFirst { retry = rendered.retry(snapshot, value) }
                    throw error.failure
                }
            } catch let caught as Failure where !isFirst {
                Output.note(caught.message)
                failure = caught
            }
            isFirst = false
            await rendered.client.acknowledge(snapshot, failure)
            // Changes during the pause are combined, so that a configuration that changes rapidly does not run the
            // commands as often.
            if isReplaced, check != nil || exec != nil { try await Task.sleep(for: RenderedConfiguration.pause) }
        }
    }

    /// Updates the output file, or prints the result.
    /// - Returns: whether the content of a file changed.
    private func write(
        _ value: JSONValue, _ rendered: RenderedConfiguration, isExecDue: Bool = false
    ) async throws -> Bool {
        guard output == "-" else { return try await rendered.write(value, isExecDue: isExecDue) }
        try Output.text(rendered.rendering.text(of: value))
        return false
    }

    private var form: Rendering.Form {
        if json { return .json }
        return env ? .environment(source.mapping) : .template(files[0])
    }

    private var rendered: RenderedOutput {
        RenderedOutput(
            path: output, mode: mode, owner: owner, check: check.map { ShellCommand(text: $0) },
            checksInPlace: checkInPlace, exec: exec.map { ShellCommand(text: $0) })
    }
}
