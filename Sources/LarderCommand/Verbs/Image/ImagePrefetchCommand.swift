import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderProtocol

/// `larder image prefetch FILE`
struct ImagePrefetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prefetch",
        abstract: "Bring a list of images into the cache, and show the progress.",
        discussion: """
            FILE has one URL per line; empty lines and lines that begin with # are skipped. Or it is a JSON array of \
            URLs and of objects with url and optionally cacheKey and expectedDigest. A line or element that cannot be \
            requested is rejected: it is not an http or https URL, is longer than 8192 bytes, is not UTF-8, or has a \
            malformed cacheKey or expectedDigest. Standard error names each with its number and the reason (at most \
            1,000 of them), and the other images are still downloaded. An image that is cached and fresh is not \
            downloaded again. Other clients' requests take precedence. A list may have any length; it is sent in as \
            many requests as needed.

            Progress is shown on standard error: a bar on a terminal, otherwise a line every five seconds; with --json \
            only the bar. At the end, standard output has the counts and each failure, with equal reasons grouped; \
            with --json it is one object, whose member rejected lists the rejected lines, and whose member evicted is \
            the number of images that were evicted for later ones, and notKept of others that are not cached, because \
            their origins forbid it. Ctrl-C stops the prefetch. Images that are complete \
            stay in the cache, and the same command resumes. --timeout limits the wait for the agent's first reply, \
            not the whole prefetch.

            The exit status is 0 if every image is cached, 1 if an image failed or was not kept, or a line was rejected, 2 if FILE \
            contains no image or is malformed JSON, 11 if images are not cached at the end only because the cache has \
            no room for all of them, and otherwise as for every verb (larder --help).

            EXAMPLES:
              larder image prefetch wallpapers.txt
              jq '[.items[].picture]' catalog.json | larder image prefetch -
              larder image prefetch wallpapers.txt --concurrency 2
              larder image prefetch wallpapers.txt --json | jq -r '.failures[].url' > again.txt
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the list; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("The maximum number of simultaneous downloads, from 1 to 64.", valueName: "number"))
    var concurrency: Int?

    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if let concurrency, !(1...64).contains(concurrency) {
            throw ValidationError("--concurrency must be from 1 to 64, not \(concurrency)")
        }
    }

    func run() async throws {
        let list = try PrefetchList.parse(Input.text(of: file), name: file)
        report(list.rejections, of: list.unit)
        var end: CInt?
        try await agent.connection.withClient { client in
            let lineBytes = try await client.call(AgentInfo.self, NoParameters()).limits.lineBytes
            // In a request line, 1,024 bytes are reserved for everything except the list, such as the method name.
            let chunks = PrefetchList.chunks(
                list.items, maxItems: ImagePrefetch.Parameters.maxItems, maxBytes: lineBytes - 1024)
            let run = PrefetchRun(
                list, chunks: chunks, concurrency: concurrency, screen: .standardError(isQuiet: agent.json))
            end = try await fetch(run, over: client)
        }
        if let end { SignalDispositions.endProcess(by: end) }
    }

    /// Writes the rejected lines or elements of the list to standard error, at most as many as the agent would list in a
    /// result. If there are more, then writes the number of the remaining ones.
    private func report(_ rejections: [PrefetchList.Rejection], of unit: PrefetchList.Unit) {
        let (name, limit) = (Input.displayName(file), ImagePrefetch.Result.maxFailures)
        for rejection in rejections.prefix(limit) {
            Output.note("\(unit) \(rejection.number) of \(name): \(rejection.reason)")
        }
        if rejections.count > limit {
            Output.note("\(rejections.count - limit) more \(unit)s of \(name) were rejected")
        }
    }

    /// Runs the prefetch and prints the result.
    /// - Returns: the signal that stopped the prefetch; nil if it was not stopped.
    private func fetch(_ run: PrefetchRun, over client: LarderClient) async throws -> CInt? {
        let (fetching, stopping) = try Interruption.cancelling { try await run.fetch(over: client) }
        let start = ContinuousClock.now
        do {
            let report = try await fetching.value
            let milliseconds = start.duration(to: .now).milliseconds
            try Output.line(agent.json ? report.json : report.text(milliseconds: milliseconds))
            if let failure = report.failure { throw failure }
            return nil
        } catch let error as LarderClientError {
            let tally = await run.tally
            let total = Human.count(tally.total, "image", "images")
            let state = "\(tally.done) of \(total) cached, \(tally.failed) failed"
            guard error.code == .cancelled else {
                if tally.settled > 0 { Output.note("\(state); run the same command to resume") }
                throw error
            }
            // The agent reads the requests of a connection in order, so it has received the cancellation when it
            // replies to this ping.
            _ = try? await client.call(AgentPing.name, timeout: .seconds(2))
            Output.note("stopped: \(state); run the same command to resume")
            return await stopping.value
        }
    }
}
