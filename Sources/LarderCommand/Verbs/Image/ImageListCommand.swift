import ArgumentParser
import LarderClientCore

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
