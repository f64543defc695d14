import ArgumentParser
import LarderEncoding
import LarderJSON
import LarderClientCore
import LarderProtocol

/// `larder image get URL`
struct ImageGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Copy an image from the cache to a file, run a program with it, or print its path.",
        discussion: """
            With -o, the image is copied to FILE, which is replaced atomically. An existing file keeps its owner, group, \
            mode, access control lists, user.* attributes and SELinux label; if that is impossible, it is not replaced.

            With --exec, which must be the last option, larder runs a program. Each argument {} is replaced by the path \
            of the file in the cache, which is kept until the program ends. larder exits with the status of the \
            program, or with 128 plus the number of the signal that ended it. The exit status is 126 if the program \
            cannot be run and 127 if it was not found, as in a shell; if the image is not available, the program does \
            not run. TERM, HUP, INT and QUIT are forwarded to the program.

            Otherwise, the path is printed. The agent may evict the file as soon as larder has exited, so the path is \
            only useful for a pinned image. The file of --exec and of the printed path is complete and verified. Do not \
            change it.

            Policies: default follows the rules of HTTP for a private cache. cacheFirst uses a cached copy, however \
            old, and the network only without one. networkFirst contacts the origin, and uses a cached copy if that \
            fails. cacheOnly never uses the network (exit status 3 without a cached copy). networkOnly always \
            downloads the image. staleWhileRevalidate uses a cached copy at once, and revalidates a stale one in the \
            background.

            If standard error is a terminal, it shows the progress of a download that takes longer than a second.

            EXAMPLES:
              larder image get https://img.example.org/logo.png -o logo.png
              larder image get https://img.example.org/logo.png -o - | file -
              larder image get https://img.example.org/logo.png --exec convert {} -resize 50% small.png
              larder image get https://img.example.org/logo.png
              larder image get https://img.example.org/logo.png --policy cacheOnly
              larder image get 'https://cdn.example.org/a?sig=…' --cache-key a
              larder image get https://img.example.org/logo.png --json | jq -r .digest
            """)

    @OptionGroup var image: ImageArgument

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Copy the image to this file; - is standard output.", valueName: "file"), completion: .file()
    )
    var output: String?

    @Flag(
        help: "Run the program that follows. Its argument {} is the path of the image. All further words belong to it.")
    var exec = false

    @OptionGroup var policy: ImagePolicyOptions

    @Option(
        help: ArgumentHelp("Reject the image unless it has this SHA-256.", valueName: "sha256"),
        transform: { text in
            guard let digest = WireDigest(text) else {
                throw ValidationError("write 64 hexadecimal digits, as printed by sha256sum")
            }
            return digest
        })
    var digest: WireDigest?

    @Option(
        help: ArgumentHelp(
            "The longest time that the agent may take to get the image. Default: the value of --timeout.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var deadline: TimeSpan?

    @OptionGroup var agent: AgentOptions

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The program of --exec and its arguments. The -- may be omitted.", valueName: "command"),
        completion: .program)
    var command: [String] = []

    /// The argument of the program that stands for the path of the image.
    private static let placeholder = "{}"

    func validate() throws {
        if output == "-", agent.json {
            throw ValidationError("--json and -o - both write to standard output; name a file")
        }
        if exec {
            guard let program = command.first, !program.isEmpty else {
                throw ValidationError("there is no program to run; write it after --exec, as in: --exec feh {}")
            }
            if !command.dropFirst().contains(Self.placeholder) {
                throw ValidationError("the program of --exec does not get the path; add {} as an argument of its own")
            }
            if output != nil || agent.json {
                throw ValidationError("--exec excludes -o and --json; use one of them")
            }
        }
        if output == "" {
            throw ValidationError("the file name of -o is empty; write -o FILE, or -o - for standard output")
        }
    }

    func run() async throws {
        let deadline = deadline ?? agent.connection.timeout
        let display = DownloadDisplay(on: .standardError(isQuiet: true))
        var parameters = ImageGet.Parameters(
            image.reference, policy: policy.policy, maximumAgeSeconds: policy.maximumAgeSeconds, expectedDigest: digest,
            // The lease keeps the file of the image. With 0 seconds, the lease lasts until the connection ends, because
            // copying the file may take arbitrarily long.
            leaseSeconds: 0, deadlineMilliseconds: deadline.milliseconds, reportsProgress: display.isVisible)
        // With a descriptor, the file can be copied by users who can connect to the agent but cannot enter the
        // directories of its cache.
        parameters.delivery = output == nil ? .path : .descriptor
        // The agent enforces the deadline. The client waits ten seconds longer, for an agent that does not respond at
        // all.
        let replyTimeout = deadline.duration + .seconds(10)
        try await agent.connection.withClient { client in
            let reply: DescriptorCall.Reply
            do {
                reply = try await Self.reply(from: client, parameters, timeout: replyTimeout, display)
            } catch let error as LarderClientError where error.remoteError?.code == .offline {
                let failure = Failure(error, agent.connection.hints)
                throw await adviceOnCopy(over: client).map(failure.adding) ?? failure
            }
            // The lease ends when the reply is released.
            defer { withExtendedLifetime(reply) {} }
            let result = try readable { () throws(WireError) in try ImageGet.Result(from: reply.result) }
            if exec {
                let words = command.map { $0 == Self.placeholder ? result.path : $0 }
                let end = try await Self.perform { () throws(Failure) in
                    try ForegroundProgram.run(Program(words: words))
                }
                end.endThisProcess()
            }
            if let output {
                let copy = try ImageFileCopy(of: reply.file, result)
                try await Self.perform { () throws(Failure) in
                    try output == "-" ? copy.toStandardOutput() : copy.toFile(output)
                }
            }
            if let text = agent.json ? reply.result.compactText : summary(result) { try Output.line(text) }
        }
    }

    /// The advice to use the cached copy that the policy of the request forbids; nil if there is none.
    private func adviceOnCopy(over client: LarderClient) async -> String? {
        let peek = try? await client.call(ImagePeek.self, ImagePeek.Parameters(image.reference))
        guard let cached = peek?.cached, digest == nil || digest == cached.image.digest else { return nil }
        let age = Human.span(milliseconds: 1000 * cached.ageSeconds)
        return "to use the cached copy, which is \(age) old, add --policy cacheFirst"
            + (policy.maxAge == nil ? "" : " and omit --max-age")
    }

    /// Requests the image and shows the progress of its download.
    private static func reply(
        from client: LarderClient, _ parameters: ImageGet.Parameters, timeout: Duration, _ display: DownloadDisplay
    ) async throws(LarderClientError) -> DescriptorCall.Reply {
        defer { display.end() }
        return try await DescriptorCall(client).send(
            ImageGet.name, timeout: timeout,
            onNotification: { message in
                guard message["method"]?.string == ImageProgress.method,
                    let progress = try? ImageGet.Progress(params: message["params"] ?? .null)
                else { return }
                display.show(progress)
            }, params: { parameters.write(to: &$0) })
    }

    private func summary(_ result: ImageGet.Result) -> String? {
        guard let output else { return result.path }
        return output == "-"
            ? nil : "\(output.printable): \(ImageText.properties(result.image)), \(Self.describe(result))"
    }

    /// Performs work that blocks on a separate thread.
    private static func perform<Value: Sendable>(
        _ work: @escaping @Sendable () throws(Failure) -> Value
    ) async throws -> Value {
        try await onOwnThread { Result { () throws(Failure) in try work() } }.get()
    }

    /// Describes for people how the agent obtained the image.
    static func describe(_ result: ImageGet.Result) -> String {
        switch (result.freshness, result.source) {
        case (.revalidated, _): "cached, revalidated with the origin"
        case (.stale, _): "cached, stale: \(Human.span(milliseconds: result.ageSeconds * 1000)) old"
        case (_, .hit): "cached"
        case (_, .joined): "downloaded together with another request"
        default: "downloaded"
        }
    }
}
