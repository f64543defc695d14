import ArgumentParser
import LarderJSON
import LarderClient

/// `larder image get URL`
struct ImageGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Get an image: the path of its file in the cache, or a copy.",
        discussion: """
            Prints the path. The file is complete and verified, must not be changed, and may leave the cache once larder \
            has ended; a copy made with -o is yours. FILE is replaced in one step or not at all.

            Policies: default is HTTP's rules for a private cache; cacheFirst takes whatever is held, however old; \
            networkFirst asks the origin and takes what is held while that is unreachable; cacheOnly never asks it \
            (exit status 3 where nothing is held); networkOnly always does; staleWhileRevalidate takes what is held at \
            once and asks behind it.

            EXAMPLES:
              larder image get https://img.example.org/logo.png
              larder image get https://img.example.org/logo.png -o logo.png
              larder image get https://img.example.org/logo.png -o - | file -
              larder image get https://img.example.org/logo.png --policy cacheOnly
              larder image get 'https://cdn.example.org/a?sig=…' --cache-key a
              larder image get https://img.example.org/logo.png --json | jq -r .digest
            """)

    @OptionGroup var image: ImageArgument

    @Option(name: .shortAndLong, help: ArgumentHelp("Copy it to this file; - is standard output.", valueName: "file"))
    var output: String?

    @OptionGroup var policy: ImagePolicyOptions

    @Option(
        help: ArgumentHelp("The SHA-256 that it must have; anything else is refused.", valueName: "sha256"),
        transform: { text in
            guard let digest = WireDigest(text) else {
                throw ValidationError("write 64 hexadecimal digits, such as sha256sum prints")
            }
            return digest
        })
    var digest: WireDigest?

    @Option(
        help: ArgumentHelp("Give up after this time, instead of after --timeout.", valueName: "time"),
        transform: TimeSpan.parse)
    var deadline: TimeSpan?

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if output == "-", agent.json {
            throw ValidationError("--json and -o - both want standard output; name a file")
        }
        if output == "" { throw ValidationError("-o names no file; write -o FILE, or -o - for standard output") }
    }

    func run() async throws {
        let deadline = deadline ?? agent.connection.timeout
        let parameters = ImageGet.Parameters(
            image.reference, policy: policy.policy, maximumAgeSeconds: policy.maximumAgeSeconds, expectedDigest: digest,
            // Until the connection ends, because a copy may take arbitrarily long.
            leaseSeconds: 0, deadlineMilliseconds: deadline.milliseconds)
        // The agent enforces the deadline. The added time covers an agent that does not respond at all.
        let patience = deadline.duration + .seconds(10)
        try await agent.connection.withClient { client in
            let value: JSONValue
            if let output {
                let request = ImageFileRequest(
                    socket: client.socket, parameters: parameters, patience: patience, hints: agent.connection.hints)
                value = try await Self.copy(request, to: output)
            } else {
                value = try await client.call(
                    ImageGet.name, params: .building { parameters.write(to: &$0) }, timeout: patience)
            }
            let result = try readable { () throws(WireError) in try ImageGet.Result(from: value) }
            if let text = agent.json ? value.compactText : summary(result) { try Output.line(text) }
        }
    }

    private func summary(_ result: ImageGet.Result) -> String? {
        guard let output else { return result.path }
        return output == "-" ? nil : "\(output.printable): \(ImageText.what(result.image)), \(Self.how(result))"
    }

    /// Requests the image and copies it.
    /// - Returns: the agent's result.
    private static func copy(_ request: ImageFileRequest, to output: String) async throws -> JSONValue {
        let end = await onOwnThread { () -> Result<JSONValue, Failure> in
            Result { () throws(Failure) in
                try request.withFile { result, file throws(Failure) in
                    let copy = ImageFileCopy(source: file, path: result.path, image: result.image)
                    try output == "-" ? copy.toStandardOutput() : copy.toFile(output)
                }
            }
        }
        return try end.get()
    }

    /// How the image was obtained, for people.
    static func how(_ result: ImageGet.Result) -> String {
        switch (result.freshness, result.source) {
        case (.revalidated, _): "held, and current as the origin says"
        case (.stale, _): "held, and stale: \(Human.span(milliseconds: result.ageSeconds * 1000)) old"
        case (_, .hit): "held"
        case (_, .joined): "fetched together with somebody else"
        default: "fetched"
        }
    }
}
