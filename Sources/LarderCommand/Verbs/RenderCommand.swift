import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder render TEMPLATE OUTPUT`
struct RenderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "render",
        abstract: "Write the configuration to a file, with a template, as JSON or as environment variables.",
        discussion: """
            The output is replaced atomically, and only if its content changes. A new file is written next to the \
            output with the final owner and mode, checked with --check, and renamed. If the check fails, the old file \
            stays (exit status 7). --exec runs only after a change. If it fails, the previous file is restored (exit \
            status 1), but the command does not run again for that file. If a signal ends larder before the command \
            has succeeded, larder restores the previous file. After SIGKILL or a crash of the machine, the next run \
            restores it. A command that has not ended after --check-timeout or --exec-timeout has failed: it gets TERM \
            and, 5 seconds later, KILL. Without a terminal, so do the processes that it has started in its process group.

            /bin/sh runs both commands. $LARDER_FILE, and {} as a separate word, stand for the path of the file; for \
            --check, of the new file. --check must contain one of them. For a program that can only check its whole \
            configuration, such as nginx -t, use --check-in-place: the new file is put in place and checked there, and \
            if the check fails, the previous file is restored. Readers always find a complete file, either the old or \
            the new one. An existing file keeps its owner, group, mode, access control lists, user.* attributes and \
            SELinux label, except for what --owner and --mode change. If larder cannot keep them, it does not replace \
            the file (exit status 1). A new file has the mode 0640. If the output is -, the result is printed.

            Templates are written in Mustache. {{search.limit}} prints a value; objects and arrays are printed as \
            JSON, and nothing is escaped. {{#name}}…{{/name}} is repeated for each element of an array, and omitted if \
            the value is false, null, an empty array or missing. {{^name}}…{{/name}} is the opposite. {{! text }} is a \
            comment. {{.}} is the innermost value, and {{.name}} is looked up only in it. Printing a name without a \
            value is an error unless the name ends with a question mark: {{name?}}. A JSON Pointer in quotation marks \
            names members with dots or spaces: {{"/hosts/a.example.org"}}, optional as {{"/hosts/a"?}}. {{=<% %>=}} changes the \
            delimiters, and {{%CONTENT_TYPE:HTML}} escapes values for HTML; in a section, both apply until its end.

            Functions: json(name) prints any value as JSON, with strings in quotes. enumerated(object) and \
            sorted(object) return a list of elements with key and value. count and empty apply to arrays, objects and \
            these lists; first, last and reversed to arrays and these lists; empty, reversed, uppercased, lowercased \
            and capitalized to strings; plusone, minusone, even, odd and equalzero to integers. In a list, index(), \
            first(), last(), even() and odd() apply to the position of the element.

            With --watch, the template is read again for each new snapshot, and the commands run at most once a \
            second. Failures are reported on standard error and by larder clients. They are retried with increasing \
            delays of up to a minute, such as a failed check, a full disk or a missing directory; but a configuration \
            that the template cannot render is not retried, and if it is the first one, larder exits. If the namespace \
            is removed from the settings or may no longer be read, larder retries until it is available again.

            --json writes the configuration as JSON. --env writes a file for shells (set -a; . FILE) and for \
            EnvironmentFile= of systemd, with the same names as larder exec. With both options the default output is -.

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
            "The template and the output, or with --json or --env only the output.", valueName: "template> <output"),
        completion: .file())
    var files: [String] = []

    @Flag(help: "Write the configuration as JSON, without a template.")
    var json = false

    @Flag(help: "Write the configuration as environment variables, without a template.")
    var env = false

    @Flag(help: "Keep running, and write the output again when the configuration changes.")
    var watch = false

    @Option(help: ArgumentHelp("Accept the new file only if this command succeeds.", valueName: "command"))
    var check: String?

    @Flag(help: "Put the new file in place before the check, and restore the previous one if the check fails.")
    var checkInPlace = false

    @Option(
        help: ArgumentHelp(
            "Run this command after the output has changed. If it fails, restore the previous file.",
            valueName: "command"))
    var exec: String?

    @Option(
        help: ArgumentHelp("End the command of --check after this time. Default: 30s.", valueName: "time"),
        transform: TimeSpan.parse)
    var checkTimeout: TimeSpan?

    @Option(
        help: ArgumentHelp("End the command of --exec after this time. Default: 30s.", valueName: "time"),
        transform: TimeSpan.parse)
    var execTimeout: TimeSpan?

    @Option(help: ArgumentHelp("The permissions of the output, in octal.", valueName: "mode"))
    var mode: FileMode?

    @Option(
        help: ArgumentHelp("The user and group of the output, as names or numbers.", valueName: "user:group"),
        completion: .user)
    var owner: FileOwner?

    @OptionGroup var source: SelectionOptions
    @OptionGroup var connection: ConnectionOptions

    func validate() throws {
        if json && env { throw ValidationError("--json and --env exclude each other; use one of them") }
        if json || env {
            if files.count > 1 { throw ValidationError("--json and --env take no template; pass only the output") }
        } else if files.count != 2 {
            throw ValidationError("name the template and the output, or add --json or --env")
        }
        if !env, !source.prefix.isEmpty { throw ValidationError("--prefix requires --env; add it") }
        if output == "-", check != nil || exec != nil || mode != nil || owner != nil {
            throw ValidationError("--check, --exec, --mode and --owner require a file; name the output")
        }
        if checkInPlace, check == nil { throw ValidationError("--check-in-place requires --check; add --check") }
        if checkTimeout != nil, check == nil { throw ValidationError("--check-timeout requires --check; add --check") }
        if execTimeout != nil, exec == nil { throw ValidationError("--exec-timeout requires --exec; add --exec") }
        if let check, !checkInPlace, !ShellCommand(text: check).namesFile {
            throw ValidationError(
                "--check '\(check)' does not name the new file; add {} as a separate word or $LARDER_FILE, or add "
                    + "--check-in-place if the program can only check its whole configuration")
        }
    }

    /// The path of the output; `-` for standard output.
    var output: String { (json || env ? files.first : files.last) ?? "-" }

    func run() async throws {
        let path = try source.path
        _ = try owner?.numbers()
        if output == "-" { Output.endWhenReaderCloses() }
        try await connection.withClient(reading: source.place) { client in
            let rendered = RenderedConfiguration(
                form: form, path: path, output: rendered, namespace: source.namespace.namespace, client: client)
            if watch { return try await follow(rendered) }
            let parameters = ConfigGet.Parameters(path: path, namespace: source.namespace.namespace)
            let value = try await client.call(ConfigGet.self, parameters).value
            do {
                _ = try await rendered.write(value)
            } catch let error as OutputFailure {
                throw error.failure
            }
        }
    }

    private func follow(_ rendered: RenderedConfiguration) async throws {
        var isFirst = true
        var isExecDue = false
        var retry: Task<Bool, Never>?
        try await rendered.client.follow(source, connection.hints) { snapshot in
            if let running = retry.take() {
                running.cancel()
                isExecDue = await running.value
            }
            var failure: Failure?
            var isReplaced = true
            var failed: (value: JSONValue, failure: OutputFailure)?
            do {
                let value = try source.value(of: snapshot, at: rendered.path)
                do {
                    isReplaced = try await rendered.write(value, isExecDue: isExecDue)
                    isExecDue = false
                } catch let error as OutputFailure {
                    isExecDue = error.isExecDue
                    failed = (value, error)
                    throw error.failure
                }
            } catch let caught as Failure where !isFirst || failed != nil {
                Output.note(caught.message)
                failure = caught
            }
            isFirst = false
            await rendered.client.acknowledge(snapshot, failure)
            if let failed { retry = rendered.retry(snapshot, failed.value, after: failed.failure) }
            // Changes during the pause are combined, so that the commands do not run for each change of a rapidly
            // changing configuration.
            if isReplaced, check != nil || exec != nil { try await Task.sleep(for: RenderedConfiguration.pause) }
        }
    }

    private var form: RenderedConfiguration.Form {
        if json { return .json }
        return env ? .environment(source.mapping) : .template(files[0])
    }

    var rendered: RenderedOutput {
        RenderedOutput(
            path: output, mode: mode, owner: owner,
            check: check.map { ShellCommand(text: $0, timeout: checkTimeout?.duration ?? ShellCommand.defaultTimeout) },
            checksInPlace: checkInPlace,
            exec: exec.map { ShellCommand(text: $0, timeout: execTimeout?.duration ?? ShellCommand.defaultTimeout) })
    }
}
