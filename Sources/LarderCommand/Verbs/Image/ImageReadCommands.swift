import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderProtocol

/// `larder image ls`
struct ImageListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "List the cached images.",
        discussion: """
            With --json, prints one line of JSON for each image.

            EXAMPLES:
              larder image ls
              larder image ls | grep stale
              larder image ls --prefix https://img.example.org/thumbnails/
              larder image ls --json | jq -r 'select(.bytes > 5000000) | .url'
            """)

    @Option(
        help: ArgumentHelp(
            "List only images whose URL begins with this text: an origin, or an origin and the beginning of a path.",
            valueName: "url"))
    var prefix: String?

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        Output.endWhenReaderCloses()
        try await agent.connection.withClient { client in
            var table = ImageTable(now: .now)
            var after: String?
            repeat {
                let parameters = ImageList.Parameters(
                    after: after, limit: ImageList.Parameters.longestPage, prefix: prefix)
                let page = try await client.call(ImageList.name, params: .building { parameters.write(to: &$0) })
                if agent.json {
                    for image in (page["images"] ?? .null).elements { try Output.line(image.compactText) }
                    after = page["next"]?.string
                } else {
                    let result = try readable { () throws(WireError) in try ImageList.Result(from: page) }
                    if let text = table.text(result.images) { try Output.line(text) }
                    after = result.next
                }
            } while after != nil
        }
    }
}

/// `larder image peek URL`
struct ImagePeekCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peek",
        abstract: "Show whether an image is cached, without using the network.",
        discussion: """
            The exit status is 3 if the image is not cached. The command does not count as a use of the image and \
            takes no lease on its file. larder image explain shows the decision for a request, and the rules for it.

            EXAMPLES:
              larder image peek https://img.example.org/logo.png
              larder image peek https://img.example.org/logo.png --json | jq -r .expiresAt
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ImagePeek.Parameters(image.reference)
        try await agent.connection.withClient { client in
            let result = try await agent.printResult(of: ImagePeek.self, parameters, over: client) { result in
                result.cached.map { ImageReport(style: .standardOutput, now: .now).text(image.reference, $0) }
            }
            if result["cached"]?.bool != true {
                let key = image.cacheKey.map { " --cache-key \($0.shellWord)" } ?? ""
                let fetch = agent.connection.hints.command("larder image get \(image.url.shellWord)\(key)")
                throw Failure(.notFound, "the image is not cached; download it with: \(fetch)")
            }
        }
    }
}

/// `larder image explain URL`
struct ImageExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show how a request for an image would be handled now, and why.",
        discussion: """
            Lists the rules with their numbers, in the order in which they are applied: age and lifetime (RFC 9111), \
            use of stale images (RFC 5861), and recent failures of the origin. The command does not use the network.

            EXAMPLES:
              larder image explain https://img.example.org/logo.png
              larder image explain https://img.example.org/logo.png --policy networkFirst
              larder image explain https://img.example.org/logo.png --max-age 1h
              larder image explain https://img.example.org/logo.png --json | jq -r '.rules[] | "\\(.name): \\(.text)"'
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var policy: ImagePolicyOptions
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ImagePeek.Parameters(
            image.reference, policy: policy.policy, maximumAgeSeconds: policy.maximumAgeSeconds, explains: true)
        try await agent.printResult(of: ImagePeek.self, parameters) { result in
            ImageReport(style: .standardOutput, now: .now).text(image.reference, policy.policy, result)
        }
    }
}

/// `larder image stats`
struct ImageStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Show the size and the hit rate of the cache.",
        discussion: """
            Counters begin when the agent starts.

            EXAMPLES:
              larder image stats
              larder image stats --json | jq '.hits / (.hits + .misses)'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.connection.withClient { client in
            let stats = try await client.call(AgentStats.name)
            guard let images = stats["images"], !images.isNull else {
                guard let problem = try await client.call(AgentInfo.self, NoParameters()).imageProblem else {
                    throw Failure(
                        .unavailable,
                        "the image cache is disabled in the settings; set images.enabled to true and restart the agent")
                }
                throw Failure(.unavailable, "the agent cannot use its image cache: \(problem)")
            }
            if agent.json { return try Output.line(images.compactText) }
            let result = try readable { () throws(WireError) in try AgentStats.Result(from: stats) }
            if let images = result.images { try Output.line(ImageStatsReport.text(images)) }
        }
    }
}
