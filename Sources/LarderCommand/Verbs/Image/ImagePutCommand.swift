import ArgumentParser
import LarderClient

/// `larder image put FILE --url URL`
struct ImagePutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Store a file as the image of a URL.",
        discussion: """
            The agent reads the file, checks it like a download, and keeps a copy under the URL, which need not exist. An image \
            that it holds there is replaced. Needs the rights images and push.

            EXAMPLES:
              larder image put today.png --url https://app.internal/charts/today.png
              larder image put today.png --url https://app.internal/charts --cache-key today --lifetime 1h
              plot | larder image put - --url https://app.internal/charts/today.png --json
            """)

    @Argument(help: ArgumentHelp("The image; - is standard input.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("The URL under which it is stored: http:// or https://.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "Store it under this key instead of the URL, within the URL's origin.", valueName: "key"))
    var cacheKey: String?

    @Option(
        help: ArgumentHelp(
            "How long it is fresh: 90s, 10m, 7d. The URL's origin is asked after that. Default: a year.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var lifetime: TimeSpan?

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let input = try InputFile(file)
        try await agent.connection.withClient { client in
            let image = try await client.images.put(
                url, file: input.descriptor, cacheKey: cacheKey, lifetime: lifetime?.duration)
            if agent.json {
                let result = ImagePut.Result(image: image)
                return try Output.line(JSONValue.building { result.write(to: &$0) }.compactText)
            }
            try Output.line("stored: \(ImageText.what(image))")
        }
    }
}
