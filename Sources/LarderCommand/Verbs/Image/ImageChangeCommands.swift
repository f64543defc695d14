import ArgumentParser
import Glibc
import LarderClientCore
import LarderProtocol

/// `larder image put FILE --url URL`
struct ImagePutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Store a file in the cache as the image of a URL.",
        discussion: """
            The agent checks the file like a download and caches a copy of it under the URL, which need not exist. The \
            copy replaces the image that is cached there. Required rights: images and push.

            EXAMPLES:
              larder image put today.png --url https://app.internal/charts/today.png
              larder image put today.png --url https://app.internal/charts --cache-key today --lifetime 1h
              plot | larder image put - --url https://app.internal/charts/today.png --json
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the image; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Store the image under this URL: http:// or https://.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "Store the image under this key instead of the query of the URL.", valueName: "key"))
    var cacheKey: String?

    @Option(
        help: ArgumentHelp(
            "How long the image is fresh, such as 90s, 10m or 7d. Afterwards it is revalidated. Default: a year.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var lifetime: TimeSpan?

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let input = try InputFile(file)
        try await agent.connection.withClient { client in
            let parameters = ImagePut.Parameters(
                ImageReference(url: url, cacheKey: cacheKey), .descriptor,
                lifetimeSeconds: lifetime?.duration.wholeSeconds ?? ImagePut.Parameters.defaultLifetime)
            let image = try await client.images.put(file: input.descriptor, parameters)
            if agent.json {
                let result = ImagePut.Result(image: image)
                return try Output.line(JSONValue.building { result.write(to: &$0) }.compactText)
            }
            try Output.line("stored: \(ImageText.properties(image))")
        }
    }
}

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

/// `larder image rm`
struct ImageRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Remove images from the cache, pinned or not.",
        discussion: """
            A file that a client is using stays until the client has finished. The command succeeds if the image is \
            not cached.

            EXAMPLES:
              larder image rm https://img.example.org/logo.png
              larder image rm --prefix https://img.example.org --dry-run
              larder image rm --prefix https://img.example.org/thumbnails/
            """)

    @Argument(help: ArgumentHelp("The URL of the image: http:// or https://.", valueName: "url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            "Identify the image by this key instead of the query of the URL.", valueName: "key"))
    var cacheKey: String?

    @Option(
        help: ArgumentHelp(
            "Remove all images whose URL begins with this text: an origin, or an origin and the beginning of a path.",
            valueName: "url"))
    var prefix: String?

    @Flag(help: "Only count the images that would be removed.")
    var dryRun = false

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        guard (url == nil) != (prefix == nil) else { throw ValidationError("pass either a URL or --prefix") }
        guard url?.isEmpty != true, prefix?.isEmpty != true else {
            throw ValidationError("the URL is empty; pass an http:// or https:// URL")
        }
        guard cacheKey == nil || url != nil else { throw ValidationError("--cache-key requires a URL; pass one") }
    }

    func run() async throws {
        let selection: ImageRemove.Selection =
            if let prefix { .prefix(prefix) } else { .image(ImageReference(url: url ?? "", cacheKey: cacheKey)) }
        let parameters = ImageRemove.Parameters(selection, isDryRun: dryRun)
        try await agent.printResult(of: ImageRemove.self, parameters) { result in
            let verb = dryRun ? "would remove" : "removed"
            if prefix == nil {
                return result.images > 0 ? "\(verb) \(Human.bytes(result.bytes))" : "the image was not cached"
            }
            return "\(verb) \(Human.count(result.images, "image", "images")), \(Human.bytes(result.bytes))"
        }
    }
}

/// `larder image clear`
struct ImageClearCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Remove all images that are not pinned from the cache.",
        discussion: """
            Asks for confirmation unless --yes is given. A file that a client is using stays until the client has \
            finished.

            EXAMPLES:
              larder image clear
              larder image clear --yes --pinned  remove all images, pinned or not
            """)

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @Flag(help: "Remove pinned images, too.")
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
            throw Failure(.usage, "cannot ask for confirmation without a terminal; add --yes to remove the images")
        }
        let stats = try await client.call(AgentStats.self, NoParameters()).images
        let cached = stats.map { "\(Human.count($0.entries, "image", "images")), \(Human.bytes($0.bytes)), cached. " }
        let which = pinned ? "all images, pinned or not" : "all images that are not pinned"
        Output.progress("\(cached ?? "")Remove \(which)? [y/N] ")
        // The answer is read on a separate thread, because reading blocks until the user answers.
        let answer = await onOwnThread { readLine() ?? "" }
        guard ["y", "yes"].contains(answer.lowercased()) else { throw Failure(.failure, "no image was removed") }
    }
}
