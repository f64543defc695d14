import ArgumentParser
import LarderClient

/// `larder image rm URL`
struct ImageRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Take an image out of the cache, pinned or not.",
        discussion: """
            Who is reading it keeps the file until then. It is no error if it is not held.

            EXAMPLES:
              larder image rm https://img.example.org/logo.png
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ImageRemove.self, image.reference) { result in
            result.removed ? "removed \(Human.bytes(result.bytes))" : "it was not held"
        }
    }
}
