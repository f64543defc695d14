import ArgumentParser
import LarderClient

/// `larder image peek URL`
struct ImagePeekCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peek",
        abstract: "Show what is held of an image, without asking the network.",
        discussion: """
            Exit status 3 where it is not held. Nothing is counted as a use, and there is no lease on the file. larder \
            image why says what a request would do, and by which rules.

            EXAMPLES:
              larder image peek https://img.example.org/logo.png
              larder image peek https://img.example.org/logo.png --json | jq -r .expiresAt
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ImagePeek.Parameters(image.reference)
        try await agent.connection.withClient { client in
            let value = try await client.call(ImagePeek.name, params: .building { parameters.write(to: &$0) })
            let result = try readable { () throws(WireError) in try ImagePeek.Result(from: value) }
            if agent.json {
                try Output.line(value.compactText)
            } else if let held = result.held {
                try Output.line(ImageReport(style: .standardOutput, now: .now).text(image.reference, held))
            }
            if result.held == nil {
                let key = image.cacheKey.map { " --cache-key \($0.shellWord)" } ?? ""
                let fetch = agent.connection.hints.command("larder image get \(image.url.shellWord)\(key)")
                throw Failure(.notFound, "it is not cached; fetch it with: \(fetch)")
            }
        }
    }
}
