import ArgumentParser
import LarderClient

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
            ImageGetCommand.self, ImagePutCommand.self, ImagePrefetchCommand.self, ImageListCommand.self,
            ImagePeekCommand.self, ImageWhyCommand.self, ImagePinCommand.self, ImageUnpinCommand.self,
            ImageRemoveCommand.self,
            ImageClearCommand.self, ImageStatsCommand.self,
        ])
}

/// The arguments of verbs that act on one image.
struct ImageArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The image's address: http:// or https://.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "Look it up by this instead of the URL, within the URL's origin: for signed URLs, which are never the same "
                + "twice.", valueName: "key"))
    var cacheKey: String?

    /// The image in terms of the protocol.
    var reference: ImageReference { ImageReference(url: url, cacheKey: cacheKey) }
}

private let policies = ImagePolicy.allCases.map(\.rawValue).joined(separator: ", ")

/// The options for the policy and the maximum age.
struct ImagePolicyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Cache or network: \(policies).", valueName: "policy"),
        transform: { text in
            guard let policy = ImagePolicy(rawValue: text) else {
                throw ValidationError("write one of \(policies)")
            }
            return policy
        })
    var policy = ImagePolicy.default

    @Option(
        help: ArgumentHelp("Take no image that the origin confirmed longer ago: 90s, 10m, 7d.", valueName: "time"),
        transform: TimeSpan.parse)
    var maxAge: TimeSpan?

    /// ``maxAge`` in whole seconds, rounded down so that no image exceeds it.
    var maximumAgeSeconds: Int? { maxAge.map { $0.milliseconds / 1000 } }
}
