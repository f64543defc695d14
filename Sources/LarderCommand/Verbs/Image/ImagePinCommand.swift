import ArgumentParser
import LarderClientCore

/// `larder image pin URL`
struct ImagePinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Pin an image, so that it stays cached until it is unpinned.",
        discussion: """
            The agent downloads the image first if it is not cached. A pinned image is never evicted, and larder image \
            clear keeps it unless --pinned is given.

            EXAMPLES:
              larder image pin https://img.example.org/logo.png
              larder image pin https://img.example.org/logo.png --timeout 5m
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ImagePin.self, image.reference) { result in
            "pinned: \(ImageText.properties(result.image))"
        }
    }
}

/// `larder image unpin URL`
struct ImageUnpinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin",
        abstract: "Unpin an image. It stays cached until it is evicted.",
        discussion: """
            The command succeeds if the image is not pinned.

            EXAMPLES:
              larder image unpin https://img.example.org/logo.png
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ImageUnpin.self, image.reference) { result in
            result.wasPinned ? "unpinned" : "the image was not pinned"
        }
    }
}
