import ArgumentParser
import LarderClientCore

/// `larder image stats`
struct ImageStatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Show the size and the hit rate of the cache.",
        discussion: """
            Counters begin when the agent starts.

            EXAMPLES:
              larder image stats
              larder image stats --json | jq '.hits / (.hits + .misses)'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.connection.withClient { client in
            let stats = try await client.call(AgentStats.name)
            guard let images = stats["images"], !images.isNull else {
                guard let problem = try await client.agent.info().imageProblem else {
                    throw Failure(
                        .unavailable,
                        "the image cache is disabled in the settings; set images.enabled to true and restart the agent")
                }
                throw Failure(.unavailable, "the agent cannot use its image cache: \(problem)")
            }
            if agent.json { return try Output.line(images.compactText) }
            let result = try readable { () throws(WireError) in try AgentStats.Result(from: stats) }
            if let images = result.images { try Output.line(ImageStatsReport.text(images)) }
        }
    }
}
