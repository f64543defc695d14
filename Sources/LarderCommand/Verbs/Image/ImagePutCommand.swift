import ArgumentParser
import LarderClientCore

/// `larder image put FILE --url URL`
struct ImagePutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Store a file in the cache as the image of a URL.",
        discussion: """
            The agent checks the file like a download and caches a copy of it under the URL, which need not exist. The \
            copy replaces the image that is cached there. Required rights: images and push.

            EXAMPLES:
              larder image put today.png --url https://app.internal/charts/today.png
              larder image put today.png --url https://app.internal/charts --cache-key today --lifetime 1h
              plot | larder image put - --url https://app.internal/charts/today.png --json
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the image; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Store the image under this URL: http:// or https://.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "Store the image under this key instead of the query of the URL.", valueName: "key"))
    var cacheKey: String?

    @Option(
        help: ArgumentHelp(
            "How long the image is fresh, such as 90s, 10m or 7d. Afterwards it is revalidated. Default: a year.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var lifetime: TimeSpan?

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let input = try InputFile(file)
        try await agent.connection.withClient { client in
            let image = try await client.images.put(
                file: input.descriptor, at: url, cacheKey: cacheKey, lifetime: lifetime?.duration)
            if agent.json {
                let result = ImagePut.Result(image: image)
                return try Output.line(JSONValue.building { result.write(to: &$0) }.compactText)
            }
            try Output.line("stored: \(ImageText.properties(image))")
        }
    }
}
