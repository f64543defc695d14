import ArgumentParser
import LarderJSON
import LarderClientCore

/// `larder image get URL`
struct ImageGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print the path of an image in the cache, or copy the image to a file.",
        discussion: """
            Without -o, prints the path of the file in the cache. The file is complete and verified. Do not change it; \
            it may be removed as soon as larder has exited. With -o, the image is copied to FILE, which is replaced \
            atomically.

            Policies: default follows the rules of HTTP for a private cache. cacheFirst uses a cached copy, however \
            old, and the network only without one. networkFirst contacts the origin, and uses a cached copy if that \
            fails. cacheOnly never uses the network (exit status 3 without a cached copy). networkOnly always \
            downloads the image. staleWhileRevalidate uses a cached copy at once, and revalidates a stale one in the \
            background.

            If standard error is a terminal, it shows the progress of a download that takes longer than a second.

            EXAMPLES:
              larder image get https://img.example.org/logo.png
              larder image get https://img.example.org/logo.png -o logo.png
              larder image get https://img.example.org/logo.png -o - | file -
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

    @OptionGroup var policy: ImagePolicyOptions

    @Option(
        help: ArgumentHelp("Refuse the image unless it has this SHA-256.", valueName: "sha256"),
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

    func validate() throws {
        if output == "-", agent.json {
            throw ValidationError("--json and -o - both write to standard output; name a file")
        }
        if output == "" {
            throw ValidationError("the file name of -o is empty; write -o FILE, or -o - for standard output")
        }
    }

    func run() async throws {
        let deadline = deadline ?? agent.connection.timeout
        let display = DownloadDisplay(on: .standardError(isQuiet: true))
        let parameters = ImageGet.Parameters(
            image.reference, policy: policy.policy, maximumAgeSeconds: policy.maximumAgeSeconds, expectedDigest: digest,
            // The lease keeps the file of the image. With 0 seconds, the lease lasts until the connection ends, because
            // copying the file may take arbitrarily long.
            leaseSeconds: 0, deadlineMilliseconds: deadline.milliseconds, reportsProgress: display.isVisible)
        // The agent enforces the deadline. The client waits ten seconds longer, for an agent that does not respond at
        // all.
        let replyTimeout = deadline.duration + .seconds(10)
        try await agent.connection.withClient { client in
            let request = ImageFileRequest(
                socket: client.socket, parameters: parameters, replyTimeout: replyTimeout,
                report: { display.show($0) }, hints: agent.connection.hints)
            let value: JSONValue
            if let output {
                value = try await Self.perform { () throws(Failure) in
                    defer { display.end() }
                    return try request.withFile { result, file throws(Failure) in
                        display.end()
                        let copy = ImageFileCopy(source: file, path: result.path, image: result.image)
                        try output == "-" ? copy.toStandardOutput() : copy.toFile(output)
                    }
                }
            } else if display.isVisible {
                value = try await Self.perform { () throws(Failure) in
                    defer { display.end() }
                    return try request.result()
                }
            } else {
                value = try await client.call(
                    ImageGet.name, params: .building { parameters.write(to: &$0) }, timeout: replyTimeout)
            }
            let result = try readable { () throws(WireError) in try ImageGet.Result(from: value) }
            if let text = agent.json ? value.compactText : summary(result) { try Output.line(text) }
        }
    }

    private func summary(_ result: ImageGet.Result) -> String? {
        guard let output else { return result.path }
        return output == "-"
            ? nil : "\(output.printable): \(ImageText.properties(result.image)), \(Self.describe(result))"
    }

    /// Performs a request, which blocks, on a separate thread.
    /// - Returns: the agent's result.
    private static func perform(
        _ request: @escaping @Sendable () throws(Failure) -> JSONValue
    ) async throws -> JSONValue {
        try await onOwnThread { Result { () throws(Failure) in try request() } }.get()
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
