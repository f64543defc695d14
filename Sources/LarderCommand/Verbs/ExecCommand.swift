import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder exec -- COMMAND`
struct ExecCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a program with the configuration as its environment.",
        discussion: """
            Each value becomes an environment variable. Its name consists of the member names on the path, in upper \
            case: search.limit becomes SEARCH_LIMIT. Characters other than letters, digits and _ become _. Strings are \
            passed unchanged, arrays as JSON, and an empty object becomes no variable. The program also inherits the \
            environment of larder, except for variables that the configuration defines. It is an error if two values \
            have the same name, if a value contains a NUL character, or if a name can change what code a program runs, \
            such as PATH, LD_*, IFS, BASH_ENV, PYTHONPATH, NODE_OPTIONS and others of the loader, shells and \
            interpreters. No list of such names can be complete, so --prefix is safer.

            Without --watch, the program replaces larder. With --watch, larder keeps running. When the variables \
            change, it stops the program with SIGTERM and starts it again or, with --signal, sends it a signal. A \
            signal does not change the program's own environment; see larder render. Changes in quick succession are \
            combined, and a change that is reverted in time has no effect. Before it stops the program, larder checks \
            that the program can be started with the new variables; if it cannot, the program keeps running, and \
            larder checks again with increasing delays of up to a minute. If the start still fails, the program is \
            started again with the previous variables. A program that has not ended after --kill-after gets KILL.

            With --watch, the program leads a process group. Signals go to the program only. After it has ended, the \
            rest of its group gets TERM and, after another --kill-after, KILL. On a terminal, the group has the \
            foreground. The variables LISTEN_PID and WATCHDOG_PID name the program.

            With --watch, larder forwards HUP, INT, QUIT, TERM, USR1, USR2, ALRM, WINCH and CONT to the program. After \
            TERM it ignores further changes. After INT it ignores them for --kill-after, then resumes if the program \
            is still running. When the program ends, larder exits with the same status, or with 128 plus the number of \
            the signal that ended it. If a new configuration cannot become variables, or if the namespace is removed \
            from the settings or may no longer be read, larder reports this on standard error and the program keeps \
            running; larder retries until the namespace is available again. The exit status is 126 if the program \
            cannot be run and 127 if it was not found, as in a shell. Do not send larder KILL: the program would keep \
            running unsupervised.

            EXAMPLES:
              larder exec -- env
              larder exec --path search --prefix SEARCH_ -- ./server --verbose
              larder exec --watch --splay 30s -- ./server
              larder exec --watch --signal HUP -- /usr/sbin/nginx -g 'daemon off;'
            """)

    @Flag(help: "Keep running, and restart or signal the program when the variables change.")
    var watch = false

    @Option(
        help: ArgumentHelp("On a change, send the program this signal, such as HUP or USR1.", valueName: "signal"),
        completion: .list(SignalName.completions))
    var signal: SignalName?

    @Flag(help: "On a change, stop the program and start it again. This is the default with --watch.")
    var restart = false

    @Option(
        help: ArgumentHelp("Delay the reaction to a change by a random time up to this one.", valueName: "time"),
        transform: TimeSpan.parse)
    var splay: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "React at most once in this time; changes within it are combined. Default: 1s.", valueName: "time"),
        transform: TimeSpan.parse)
    var interval = TimeSpan(.seconds(1))

    @Option(
        help: ArgumentHelp(
            "Kill the program if it has not ended this long after it was stopped. Default: 30s.", valueName: "time"),
        transform: TimeSpan.parse)
    var killAfter = TimeSpan(.seconds(30))

    @OptionGroup var source: SelectionOptions
    @OptionGroup var connection: ConnectionOptions

    @Argument(
        parsing: .postTerminator, help: ArgumentHelp("The program and its arguments.", valueName: "command"),
        completion: .program)
    var command: [String] = []

    func validate() throws {
        guard let program = command.first, !program.isEmpty else {
            throw ValidationError("there is no program to run; write it after --, as in: larder exec -- env")
        }
        if signal != nil && restart {
            throw ValidationError("--signal and --restart exclude each other; use one of them")
        }
        if !watch, signal != nil || restart || splay != nil {
            throw ValidationError("--signal, --restart and --splay require --watch; add it")
        }
    }

    func run() async throws {
        let path = try source.path
        if !watch {
            var program: Program?
            try await connection.withClient(reading: source.place) { client in
                let parameters = ConfigGet.Parameters(path: path, namespace: source.namespace.namespace)
                let value = try await client.call(ConfigGet.self, parameters).value
                program = Program(words: command, variables: try source.mapping.variables(of: value, at: path))
            }
            try program?.replaceThisProcess()
        }
        try await connection.withClient(reading: source.place) { client in try await follow(client, path) }
    }

    /// Starts the program with the first snapshot, and reacts to each later one (``SupervisedProgram``). This process
    /// exits when the program ends.
    private func follow(_ client: LarderClient, _ path: JSONPath) async throws {
        let (words, continuation) = AsyncStream.makeStream(
            of: Acknowledgement.self, bufferingPolicy: .bufferingNewest(16))
        let acknowledging = Task { await Self.acknowledge(words, over: client) }
        defer { acknowledging.cancel() }
        var supervised: (program: SupervisedProgram, run: Task<Never, Never>)?
        do {
            try await client.follow(source, connection.hints) { snapshot in
                let change = Result { () throws(Failure) in
                    SupervisedProgram.Change(
                        snapshot: snapshot,
                        variables: try source.mapping.variables(of: source.value(of: snapshot, at: path), at: path))
                }
                switch (supervised, change) {
                case (nil, .success(let first)):
                    let program = try SupervisedProgram(command) {
                        continuation.yield(Acknowledgement(snapshot: $0, rejection: $1))
                    }
                    supervised = (program, run(program, with: first))
                case (nil, .failure(let failure)):
                    await client.acknowledge(snapshot, failure)
                    throw failure
                case (let supervised?, .success(let change)):
                    supervised.program.change(to: change)
                case (_, .failure(let failure)):
                    Output.note("\(failure.message); the program keeps its current variables")
                    continuation.yield(Acknowledgement(snapshot: snapshot, rejection: failure))
                }
            }
        } catch let error as LarderClientError where supervised != nil {
            Output.note("\(error); the program keeps its current variables and gets no more changes")
        }
        await supervised?.run.value
    }

    /// An acknowledgement to send.
    private struct Acknowledgement {
        let snapshot: LarderSnapshot
        let rejection: Failure?
    }

    /// Sends the acknowledgements in order. The agent shows only the last acknowledgement of a client. Therefore, after
    /// a newer snapshot was rejected, an older one that takes effect late is not reported.
    private static func acknowledge(_ words: AsyncStream<Acknowledgement>, over client: LarderClient) async {
        var rejected: LarderSnapshot?
        for await acknowledgement in words {
            if let rejected, rejected.epoch == acknowledgement.snapshot.epoch,
                rejected.revision > acknowledgement.snapshot.revision
            {
                continue
            }
            rejected = acknowledgement.rejection == nil ? nil : acknowledgement.snapshot
            await client.acknowledge(acknowledgement.snapshot, acknowledgement.rejection)
        }
    }

    private func run(_ program: SupervisedProgram, with first: SupervisedProgram.Change) -> Task<Never, Never> {
        let reaction = signal.map { ExecSupervisor.Reaction.signal($0.number) } ?? .restart
        let timing = ExecSupervisor.Timing(
            splay: splay?.duration ?? .zero, interval: interval.duration, stopTimeout: killAfter.duration)
        return Task {
            switch await onOwnThread({ program.run(with: first, reaction, timing) }) {
            case .success(let end): end.endThisProcess()
            case .failure(let failure): failure.endThisProcess()
            }
        }
    }
}
