import ArgumentParser
import LarderJSON

/// `larder-bench image fill`: a cache with many images, for the other measurements.
struct ImageFill: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill", abstract: "Start an agent, have it prefetch many images, and stop it.",
        discussion: """
            The origin has to have an image, each with other bytes, at every number behind --origin. What is left in the \
            directory is for `image start` and `image evict`.
            """)

    @Option(help: ArgumentHelp("The agent's program.", valueName: "file"))
    var larderd: String

    @Option(help: "Where it keeps its files; created if it is not there.")
    var directory: String

    @Option(help: ArgumentHelp("What the numbers are put behind.", valueName: "url"))
    var origin: String

    @Option(help: "How many images.")
    var count = 100_000

    func validate() throws {
        guard count >= 1 else { throw ValidationError("--count is at least 1.") }
    }

    func run() throws {
        try MeasuredAgent.writeSettings(in: directory, maximumImages: count)
        let agent = try MeasuredAgent(larderd, in: directory)
        let connection = try WaitingConnection(to: agent.peer.socketPath, name: "larder", patience: 600)
        let start = MonotonicClock.nanoseconds()
        for first in stride(from: 0, to: count, by: 5_000) {
            let urls = (first..<min(first + 5_000, count)).map { "\(origin)\($0)" }
            let request = PreparedBytes(LarderRequest.prefetch(urls))
            try connection.send(request.buffer)
            let reply = try JSONValue(parsing: Array(connection.line().bytes))
            guard reply["result"]?["failed"] == 0 else { throw BenchError(.refused, "larder: \(reply)") }
        }
        let seconds = Double(MonotonicClock.nanoseconds() &- start) / 1e9
        let held = try agent.images()["entries"]?.int
        guard held == count else { throw BenchError(.unexpected, "\(held ?? -1) images are held, not \(count)") }
        try agent.stop()
        print("\(count) images in \(NumberText.grouped(seconds, decimals: 1)) s")
    }
}
