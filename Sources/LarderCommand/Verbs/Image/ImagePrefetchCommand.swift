import ArgumentParser
import LarderClient

/// `larder image prefetch FILE`
struct ImagePrefetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prefetch",
        abstract: "Bring many images into the cache, and show how far it is.",
        discussion: """
            FILE has one URL a line; empty lines and lines that begin with # are passed over. Or it is a JSON array of \
            URLs and of objects with url and, if wanted, cacheKey and expectedDigest. An image that is held and fresh is \
            not fetched again. Requests that somebody waits for come first. A URL of more than 8192 bytes is one failure, \
            told by its line or element; what is no URL at all is taken for a mistake in the list, and nothing is fetched.

            Progress is shown on standard error: a bar on a terminal, a line every five seconds elsewhere, and with \
            --json none but the bar. When all is done, standard output has the summary and each failure, and the exit \
            status is 1 where there is any. Ctrl-C stops it; what is complete stays, so that the same command goes on \
            from there. --timeout is how long the agent may be silent at the start, not how long it all may take.

            EXAMPLES:
              larder image prefetch wallpapers.txt
              jq '[.items[].picture]' catalogue.json | larder image prefetch -
              larder image prefetch wallpapers.txt --concurrency 2
              larder image prefetch wallpapers.txt --json | jq -r '.failures[].url // empty' > again.txt
            """)

    @Argument(help: ArgumentHelp("The list; - is standard input.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("Fetch at most this many at once, 1 to 64.", valueName: "number"))
    var concurrency: Int?

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if let concurrency, !(1...64).contains(concurrency) {
            throw ValidationError("--concurrency must be 1 to 64, not \(concurrency)")
        }
    }

    func run() async throws {
        let list = try PrefetchList.parse(Input.contents(of: file), name: file)
        var end: CInt?
        try await agent.connection.withClient { client in
            let lineBytes = try await client.agent.info().limits.lineBytes
            // The envelope of a request takes some of the line.
            let portions = PrefetchList.portions(
                list.items, mostItems: ImagePrefetch.Parameters.mostItems, mostBytes: lineBytes - 1024)
            let run = PrefetchRun(
                list, portions: portions, concurrency: concurrency, screen: .standardError(isQuiet: agent.json))
            end = try await fetch(run, over: client)
        }
        if let end { Interruption.end(by: end) }
    }

    /// Runs it to its end and prints what it came to.
    /// - Returns: the signal that stopped it; nil where none did.
    private func fetch(_ run: PrefetchRun, over client: LarderClient) async throws -> CInt? {
        let interruption = try Interruption()
        let fetching = Task { try await run.fetch(over: client) }
        let stopping = Task {
            let number = await interruption.first()
            fetching.cancel()
            return number
        }
        let start = ContinuousClock.now
        do {
            let report = try await fetching.value
            let milliseconds = TimeSpan(start.duration(to: .now)).milliseconds
            try Output.line(agent.json ? report.json : report.text(milliseconds: milliseconds))
            let result = report.result
            guard result.failed > 0 else { return nil }
            throw Failure(.failure, "\(result.failed) of \(Human.count(result.total, "image", "images")) failed")
        } catch let error as LarderClientError {
            let tally = await run.tally
            let total = Human.count(tally.total, "image", "images")
            let state = "\(tally.done) of \(total) are held, \(tally.failed) failed"
            guard error.code == .cancelled else {
                if tally.settled > 0 { Output.note("\(state); the same command goes on from there") }
                throw error
            }
            // Its answer comes behind the end of the prefetch: the agent has stopped, too.
            _ = try? await client.call(AgentPing.name, timeout: .seconds(2))
            Output.note("stopped: \(state); the same command goes on from there")
            return await stopping.value
        }
    }
}
