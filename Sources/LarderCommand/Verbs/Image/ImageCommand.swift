import ArgumentParser

/// `larder image VERB`
struct ImageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "image",
        abstract: "Get images out of the agent's cache, fill it, and see what it holds.",
        discussion: """
            One verified copy of each image on the machine, fetched once however many ask, kept by HTTP's rules.

            EXAMPLES:
              larder image get https://img.example.org/logo.png -o logo.png
              larder image prefetch wallpapers.txt
              larder image why https://img.example.org/logo.png
              larder image ls
            """,
        subcommands: [
            ImageGetCommand.self, ImagePrefetchCommand.self, ImageListCommand.self, ImagePeekCommand.self,
            ImageWhyCommand.self, ImagePinCommand.self, ImageUnpinCommand.self, ImageRemoveCommand.self,
            ImageClearCommand.self, ImageStatsCommand.self,
        ])
}
