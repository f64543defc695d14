import ArgumentParser
import Foundation

/// `larder-bench files`: how long it takes from a file that is put in its place to the last client that hears of it.
struct FilesBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files", abstract: "Replace a file and wait until the last subscriber knows.",
        discussion: """
            The agent's namespace has the directory as its `host` layer, and its subscribers get the new value. watchman \
            watches a directory beside it, and its subscribers get the name of the file. Both wait until nothing has changed \
            for 20 ms before they look, unless they are told otherwise. Servers take turns, round by round.
            """)

    @Option(name: .customLong("socket"), help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var larderSocket: String

    @Option(name: .customLong("watchman-socket"), help: ArgumentHelp("watchman's socket.", valueName: "path"))
    var watchmanSocket: String?

    @Option(help: "The host directory of the namespace.")
    var directory: String

    @Option(help: "A directory for watchman to watch.")
    var watchmanDirectory: String?

    @Option(help: "Subscribers, each with a connection of its own.")
    var subscribers = 1

    @Option(help: "Rounds for each server.")
    var rounds = 40

    @Option(help: "The namespace.")
    var namespace = "files"

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    mutating func validate() throws {
        guard subscribers >= 1, rounds >= 1 else { throw ValidationError("Numbers have to be at least 1.") }
        guard (watchmanSocket == nil) == (watchmanDirectory == nil) else {
            throw ValidationError("--watchman-socket and --watchman-directory go together.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: 2 * subscribers + 2)
        let larder = Peer(kind: .larder, socketPath: larderSocket)
        var groups = [
            try FileGroup(
                larder, directory: directory, subscribers: subscribers,
                LarderRequest.subscribe(path: FileGroup.path, namespace: namespace), showsValue: true)
        ]
        if let watchmanSocket, let watchmanDirectory {
            let watchman = Peer(kind: .watchman, socketPath: watchmanSocket)
            try ControlConnection(to: watchman).ask(WatchmanRequest.watch(watchmanDirectory))
            groups.append(
                try FileGroup(
                    watchman, directory: watchmanDirectory, subscribers: subscribers,
                    WatchmanRequest.subscribe(watchmanDirectory), showsValue: false))
        }
        var samples = [[Double]](repeating: [], count: groups.count)
        // The first round is not counted.
        for round in 0...rounds {
            for (position, group) in groups.enumerated() {
                let microseconds = try group.round()
                if round > 0 { samples[position].append(microseconds) }
            }
        }
        let rows = zip(groups, samples).map { group, samples in
            Report.Row(
                name: group.name,
                metrics: [
                    .init(key: "medianMicroseconds", title: "median µs", value: Statistics.median(samples)),
                    .init(key: "p99Microseconds", title: "p99 µs", value: Statistics.percentile(samples, 99)),
                ], samples: samples)
        }
        Report(
            benchmark: "files", headline: "a file is replaced; µs until the last of \(subscribers) subscribers knows",
            parameters: [
                ("subscribers", .count(subscribers)), ("rounds", .count(rounds)), ("namespace", .text(namespace)),
            ],
            rows: rows, comparedMetric: "medianMicroseconds"
        ).print(asJSON: printsJSON)
    }
}

/// One server that watches a directory, and its subscribers.
private final class FileGroup {
    static let path = "bench.files.value"
    private static let file = "bench.json"

    let name: String
    private let directory: String
    /// Where a file is before it is put in its place: in none of the directories on the way to it, which are watched.
    private let staging: String
    private let crowd: SubscriberCrowd
    /// Whether events carry the value that is in the file, or only its name.
    private let showsValue: Bool
    private var marker = FanoutMarker()

    init(
        _ peer: Peer, directory: String, subscribers: Int, _ request: [UInt8], showsValue: Bool
    ) throws(BenchError) {
        name = peer.name
        self.directory = directory
        self.showsValue = showsValue
        staging = directory + ".new"
        guard mkdir(staging, 0o700) == 0 || errno == EEXIST else { throw .system("mkdir \(staging)") }
        crowd = try SubscriberCrowd(peer, count: subscribers, request: request)
    }

    /// Replaces the file, and waits for all. The answer is in microseconds.
    func round() throws -> Double {
        // What the round before has caused is over, and read.
        usleep(100_000)
        for connection in crowd.connections { try connection.receive(into: crowd.loop.scratch) { _ in } }
        marker.advance()
        let text = "{\"bench\":{\"files\":{\"value\":\"\(marker.text)\"}}}\n"
        let wanted = showsValue ? marker.text : Self.file
        let temporary = "\(staging)/\(Self.file)"
        try Data(text.utf8).write(to: URL(fileURLWithPath: temporary))
        var knows = [Bool](repeating: false, count: crowd.connections.count)
        var waiting = knows.count
        let started = MonotonicClock.nanoseconds()
        guard rename(temporary, "\(directory)/\(Self.file)") == 0 else {
            throw BenchError.system("rename \(temporary)")
        }
        while waiting > 0 {
            try crowd.loop.turn { (connection) throws(BenchError) in
                try connection.receive(into: crowd.loop.scratch) { (line) throws(BenchError) in
                    guard !knows[connection.index], ReplyText.offset(of: wanted, in: line) != nil else { return }
                    knows[connection.index] = true
                    waiting -= 1
                }
            }
        }
        return Double(MonotonicClock.nanoseconds() &- started) / 1000
    }
}
