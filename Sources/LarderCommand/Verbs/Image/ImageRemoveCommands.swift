import ArgumentParser
import Glibc
import LarderClient

/// `larder image rm`
struct ImageRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Take images out of the cache, pinned or not.",
        discussion: """
            A program that reads an image keeps the file until it has finished. An image that is not held is no error.

            EXAMPLES:
              larder image rm https://img.example.org/logo.png
              larder image rm --prefix https://img.example.org --dry-run
              larder image rm --prefix https://img.example.org/thumbnails/
            """)

    @Argument(help: ArgumentHelp("The image's address: http:// or https://.", valueName: "url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            "The image is looked up by this instead of the URL, within the URL's origin.", valueName: "key"))
    var cacheKey: String?

    @Option(
        help: ArgumentHelp(
            "Remove all images whose URLs begin so: an origin, or an origin and the beginning of a path.",
            valueName: "url"))
    var prefix: String?

    @Flag(help: "Only count what would be removed.")
    var dryRun = false

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        guard (url == nil) != (prefix == nil) else { throw ValidationError("Give a URL or --prefix, and not both.") }
        guard url?.isEmpty != true, prefix?.isEmpty != true else { throw ValidationError("The URL is empty.") }
        guard cacheKey == nil || url != nil else { throw ValidationError("--cache-key needs a URL.") }
    }

    func run() async throws {
        let selection: ImageRemove.Selection =
            if let prefix { .prefix(prefix) } else { .image(ImageReference(url: url ?? "", cacheKey: cacheKey)) }
        let parameters = ImageRemove.Parameters(selection, isDryRun: dryRun)
        try await agent.printResult(of: ImageRemove.self, parameters) { result in
            let verb = dryRun ? "would remove" : "removed"
            if prefix == nil {
                return result.images > 0 ? "\(verb) \(Human.bytes(result.bytes))" : "it was not held"
            }
            return "\(verb) \(Human.count(result.images, "image", "images")), \(Human.bytes(result.bytes))"
        }
    }
}

/// `larder image clear`
struct ImageClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Take all images out of the cache that are not pinned.",
        discussion: """
            Asks first; --yes does not. Who is reading one keeps the file until then.

            EXAMPLES:
              larder image clear
              larder image clear --yes --pinned  everything, whether it is pinned or not
            """)

    @Flag(name: .shortAndLong, help: "Do not ask.")
    var yes = false

    @Flag(help: "Take out what is pinned, too.")
    var pinned = false

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.connection.withClient { client in
            if !yes { try await ask(client) }
            let parameters = ImageClear.Parameters(includesPinned: pinned)
            try await agent.printResult(of: ImageClear.self, parameters, over: client) { result in
                "removed \(Human.count(result.removed, "image", "images")), \(Human.bytes(result.bytes))"
            }
        }
    }

    /// Asks for confirmation. Returns only if the user agrees.
    private func ask(_ client: LarderClient) async throws {
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            throw Failure(.usage, "clear takes out all images and there is nobody to ask; add --yes")
        }
        let stats = try await client.agent.stats().images
        let held = stats.map { "\(Human.count($0.entries, "image", "images")), \(Human.bytes($0.bytes)), held. " }
        let which = pinned ? "all of them, pinned or not" : "all that are not pinned"
        Output.progress("\(held ?? "")Take out \(which)? [y/N] ")
        // On a separate thread, because reading blocks until the user answers.
        let answer = await onOwnThread { readLine() ?? "" }
        guard ["y", "yes"].contains(answer.lowercased()) else { throw Failure(.failure, "nothing was removed") }
    }
}
