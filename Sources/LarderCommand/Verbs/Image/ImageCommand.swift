import ArgumentParser
import LarderClientCore

/// `larder image VERB`
struct ImageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "image",
        abstract: "Get images from the agent's cache, and manage the cache.",
        discussion: """
            The agent downloads each image once for all processes of the machine, verifies it, and caches it by the \
            rules of HTTP.

            EXAMPLES:
              larder image get https://img.example.org/logo.png -o logo.png
              larder image prefetch wallpapers.txt
              larder image explain https://img.example.org/logo.png
              larder image ls
              larder image downloads
            """,
        subcommands: [
            ImageGetCommand.self, ImagePutCommand.self, ImagePrefetchCommand.self, ImageListCommand.self,
            ImagePeekCommand.self, ImageExplainCommand.self, ImagePinCommand.self, ImageUnpinCommand.self,
            ImageRemoveCommand.self, ImageClearCommand.self, ImageDownloadsCommand.self, ImageCancelCommand.self,
            ImageStatsCommand.self,
        ])
}
