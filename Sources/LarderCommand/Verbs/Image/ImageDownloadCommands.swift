import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder image downloads`
struct ImageDownloadsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "downloads",
        abstract: "Show the downloads of images in progress.",
        discussion: """
            On a terminal, the list is refreshed every second until Ctrl-C. With --once or --json, or if standard output \
            is not a terminal, it is printed once. WAITING is the number of requests that wait for the download; 0 \
            means that it continues in the background. The URL is not shown if only other users may have images of \
            its origin.

            EXAMPLES:
              larder image downloads
              larder image downloads --once
              larder image downloads --json | jq -r '.downloads[] | select(.state == "running") | .url'
            """)

    @Flag(help: "Print the list once, even on a terminal.")
    var once = false

    @OptionGroup var agent: AgentOptions

    private static let interval = Duration.seconds(1)

    func run() async throws {
        guard !once, !agent.json, Output.isTerminal else {
            return try await agent.printResult(of: ImageDownloads.self, NoParameters()) { result in
                DownloadReport.text(result.downloads)
            }
        }
        try await agent.connection.withClient { client in
            while true {
                let downloads = try await client.call(ImageDownloads.self, NoParameters()).downloads
                let size = Output.terminalSize()
                let list = DownloadReport.text(downloads, columns: size.columns, rows: size.rows - 1)
                Output.clearScreen()
                try Output.line(list)
                try await Task.sleep(for: Self.interval)
            }
        }
    }
}

/// `larder image cancel ID`
struct ImageCancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancel a download of an image.",
        discussion: """
            The requests that wait for the download fail. A later request for the image downloads it again. The right \
            administer is needed, because other users may wait for the image. Your own request ends with Ctrl-C.

            The exit status is 3 if there is no such download, for example because it has ended.

            EXAMPLES:
              larder image cancel 7
              larder image downloads --json | jq '.downloads[].id' | xargs -n 1 larder image cancel
            """)

    @Argument(help: ArgumentHelp("The number of the download, from larder image downloads.", valueName: "id"))
    var id: Int

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if id < 1 { throw ValidationError("the ID is \(id); write a number from larder image downloads") }
    }

    func run() async throws {
        try await agent.printResult(of: ImageCancel.self, ImageCancel.Parameters(id)) { result in
            "cancelled; \(Human.count(result.requests, "request was", "requests were")) waiting for the image"
        }
    }
}
