import ArgumentParser
import LarderClient

/// `larder image pin URL`
struct ImagePinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Keep an image until it is unpinned; fetch it first if need be.",
        discussion: """
            What is pinned is never removed to make room, and larder image clear passes it over.

            EXAMPLES:
              larder image pin https://img.example.org/logo.png
              larder image pin https://img.example.org/logo.png --timeout 5m
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ImagePin.self, image.reference) { result in
            "pinned: \(ImageText.what(result.image))"
        }
    }
}

/// `larder image unpin URL`
struct ImageUnpinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin",
        abstract: "Take a pin away; the image stays until its room is needed.",
        discussion: """
            It is no error if there was none.

            EXAMPLES:
              larder image unpin https://img.example.org/logo.png
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ImageUnpin.self, image.reference) { result in
            result.wasPinned ? "unpinned" : "it was not pinned"
        }
    }
}
