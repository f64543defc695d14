import ArgumentParser
import Glibc
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

    /// Returns where the answer is yes.
    private func ask(_ client: LarderClient) async throws {
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            throw Failure(.usage, "clear takes out all images and there is nobody to ask; add --yes")
        }
        let stats = try await client.agent.stats().images
        let held = stats.map { "\(Human.count($0.entries, "image", "images")), \(Human.bytes($0.bytes)), held. " }
        let which = pinned ? "all of them, pinned or not" : "all that are not pinned"
        Output.progress("\(held ?? "")Take out \(which)? [y/N] ")
        // A connection that waits for a person has nothing to do meanwhile.
        let answer = await onOwnThread { readLine() ?? "" }
        guard ["y", "yes"].contains(answer.lowercased()) else { throw Failure(.failure, "nothing was removed") }
    }
}
