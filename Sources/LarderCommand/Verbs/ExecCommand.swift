import ArgumentParser
import LarderClient

/// `larder exec -- COMMAND`
struct ExecCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a program with the configuration as its environment.",
        discussion: """
            Each value becomes a variable, named by the members that lead to it: search.limit is SEARCH_LIMIT. Letters \
            become upper case and other characters than letters, digits and _ become _; strings are passed as they are, \
            arrays as JSON, and an empty object makes no variable. Variables that larder has itself are passed on unless \
            the configuration has one of the same name. Two values for one name, a value with a NUL character, and names \
            by which configuration would choose the code that runs (PATH, LD_…, IFS, BASH_ENV, PYTHONPATH, NODE_OPTIONS \
            and others of the loader, shells and interpreters) are errors. No list of those can be complete: --prefix is \
            the safe way.

            Without --watch larder becomes the program. With --watch it stays, and when the variables change it stops the \
            program with SIGTERM and starts it again, or sends it a signal (the program's own environment stays then; see \
            larder render). Changes that come close together are joined, and one that is taken back in time does nothing. \
            HUP, INT, QUIT, TERM, USR1, USR2, ALRM, WINCH and CONT are passed on to the program. After TERM nothing is started or \
            stopped again; after INT neither for --kill-after, and a program that lives on is then watched as before. When the program ends by \
            itself larder ends too, with its exit status, or with 128 and the number of the signal that ended it. A \
            configuration that cannot become variables is noted on standard error and the program left as it is, and so \
            is a namespace that the settings do not declare any more, or do not let the user read; it is asked for until it \
            is back. 126 and 127 say, as in a shell, that the program could not be run or was not found. larder itself must \
            not be killed with KILL: its program would live on, without it.

            EXAMPLES:
              larder exec -- env
              larder exec --path search --prefix SEARCH_ -- ./server --verbose
              larder exec --watch --splay 30s -- ./server
              larder exec --watch --signal HUP -- /usr/sbin/nginx -g 'daemon off;'
            """)

    @Flag(help: "Stay, and act when the variables change.")
    var watch = false

    @Option(help: ArgumentHelp("On a change send the program this signal, such as HUP or USR1.", valueName: "signal"))
    var signal: SignalName?

    @Flag(help: "On a change stop the program and start it again. This is what --watch does by default.")
    var restart = false

    @Option(
        help: ArgumentHelp("Wait up to this before acting on a change, by chance.", valueName: "time"),
        transform: TimeSpan.parse)
    var splay: TimeSpan?

    @Option(
        help: ArgumentHelp("Act at most once in this time; changes within it are joined.", valueName: "time"),
        transform: TimeSpan.parse)
    var interval = TimeSpan(.seconds(1))

    @Option(
        help: ArgumentHelp("Kill a program that does not end in this time when it is stopped.", valueName: "time"),
        transform: TimeSpan.parse)
    var killAfter = TimeSpan(.seconds(30))

    @OptionGroup var source: SelectionOptions
    @OptionGroup var connection: ConnectionOptions

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The program and its arguments.", valueName: "command"))
    var command: [String] = []

    func validate() throws {
        guard let program = command.first, !program.isEmpty else {
            throw ValidationError("there is no program to run; write it after --, as in: larder exec -- env")
        }
        if signal != nil && restart {
            throw ValidationError("--signal and --restart exclude each other; choose what happens on a change")
        }
        if !watch, signal != nil || restart || splay != nil {
            throw ValidationError("--signal, --restart and --splay say what happens on a change; add --watch")
        }
    }

    func run() async throws {
        let path = try source.path
        if !watch {
            var program: Program?
            try await connection.withClient { client in
                let parameters = ConfigGet.Parameters(path: path, namespace: source.namespace.namespace)
                let value = try await client.call(ConfigGet.self, parameters).value
                program = Program(words: command, variables: try source.mapping.variables(of: value, at: path))
            }
            try program?.replaceThisProcess()
        }
        try await connection.withClient { client in try await follow(client, path) }
    }

    /// Starts the program with the first snapshot and passes it all later ones. This process ends with the program.
    private func follow(_ client: LarderClient, _ path: JSONPath) async throws {
        let (words, book) = AsyncStream.makeStream(of: Word.self, bufferingPolicy: .bufferingNewest(16))
        let acknowledging = Task { await Self.acknowledge(words, over: client) }
        defer { acknowledging.cancel() }
        var supervised: (program: SupervisedProgram, run: Task<Never, Never>)?
        do {
            try await client.follow(source) { snapshot in
                let change = Result { () throws(Failure) in
                    SupervisedProgram.Change(
                        snapshot: snapshot,
                        variables: try source.mapping.variables(of: source.value(of: snapshot, at: path), at: path))
                }
                switch (supervised, change) {
                case (nil, .success(let first)):
                    let program = try SupervisedProgram(command) { book.yield(Word(snapshot: $0, refusal: nil)) }
                    supervised = (program, run(program, with: first))
                case (nil, .failure(let failure)):
                    await client.acknowledge(snapshot, failure)
                    throw failure
                case (let supervised?, .success(let change)):
                    supervised.program.change(to: change)
                case (_, .failure(let failure)):
                    Output.note("\(failure.message); the program keeps what it has")
                    book.yield(Word(snapshot: snapshot, refusal: failure))
                }
            }
        } catch let error as LarderClientError where supervised != nil {
            Output.note("\(error); no more changes come, and the program keeps what it has")
        }
        await supervised?.run.value
    }

    /// An acknowledgement to send.
    private struct Word {
        let snapshot: ConfigSnapshot
        let refusal: Failure?
    }

    /// Sends the acknowledgements in order. The agent shows only the last one of a client. Therefore an older snapshot
    /// that takes effect late is not reported after the refusal of a newer one.
    private static func acknowledge(_ words: AsyncStream<Word>, over client: LarderClient) async {
        var refused: ConfigSnapshot?
        for await word in words {
            if let refused, refused.epoch == word.snapshot.epoch, refused.revision > word.snapshot.revision { continue }
            refused = word.refusal == nil ? nil : word.snapshot
            await client.acknowledge(word.snapshot, word.refusal)
        }
    }

    private func run(_ program: SupervisedProgram, with first: SupervisedProgram.Change) -> Task<Never, Never> {
        let reaction = signal.map { ExecSupervisor.Reaction.signal($0.number) } ?? .restart
        let timing = ExecSupervisor.Timing(
            splay: splay?.duration ?? .zero, interval: interval.duration, patience: killAfter.duration)
        return Task {
            switch await onOwnThread({ program.run(with: first, reaction, timing) }) {
            case .success(let end): end.endThisProcess()
            case .failure(let failure): failure.endThisProcess()
            }
        }
    }
}
