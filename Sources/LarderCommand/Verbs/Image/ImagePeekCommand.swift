import ArgumentParser
import LarderClientCore
import LarderEncoding

/// `larder image peek URL`
struct ImagePeekCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peek",
        abstract: "Show whether an image is cached, without using the network.",
        discussion: """
            The exit status is 3 if the image is not cached. The command does not count as a use of the image and \
            takes no lease on its file. larder image why shows the decision for a request, and the rules for it.

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
                result.held.map { ImageReport(style: .standardOutput, now: .now).text(image.reference, $0) }
            }
            if result["held"]?.bool != true {
                let key = image.cacheKey.map { " --cache-key \($0.shellWord)" } ?? ""
                let fetch = agent.connection.hints.command("larder image get \(image.url.shellWord)\(key)")
                throw Failure(.notFound, "the image is not cached; download it with: \(fetch)")
            }
        }
    }
}
