import ArgumentParser

/// `larder-bench image delivery`: how many bytes of images get into a client's memory in a second.
struct ImageDeliveryBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delivery", abstract: "Bring images into a client's memory, beside nginx's proxy cache.",
        discussion: """
            Some clients, each on a thread, take one image after the other, of those that `larder-bench image make` made. \
            They ask the agent, and read or map the file by its path or by the descriptor that comes with the reply; or \
            they ask nginx over a Unix socket, by a connection that is kept. A mapped file counts once each of its pages \
            was looked at. The ways take turns, round by round.
            """)

    @Option(help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @Option(help: ArgumentHelp("The Unix socket of nginx's proxy cache.", valueName: "path"))
    var nginxSocket: String

    @Option(help: ArgumentHelp("The origin of both, such as http://127.0.0.1:8080.", valueName: "url"))
    var origin: String

    @Option(help: ArgumentHelp("Where on the origin 0.png, 1.png and so on are.", valueName: "path"))
    var path: String

    @Option(help: "How many of them there are.")
    var count = 8

    @Option(help: "Bytes of each.")
    var bytes: Int

    @Option(help: "Clients at the same time.")
    var clients = 2

    @Option(help: "Rounds for each way.")
    var rounds = 5

    @Option(help: "Seconds for each round.")
    var seconds = 1.0

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard count >= 1, bytes >= 1, clients >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --seconds above 0.")
        }
    }

    func run() throws {
        let paths = (0..<count).map { "\(path)/\($0).png" }
        let crowds = try ImageWay.allCases.map { way in
            try ImageTakers(clients) {
                try ImageTaker(
                    way, socket: way == .nginx ? nginxSocket : socket,
                    names: way == .nginx ? paths : paths.map { origin + $0 }, imageBytes: bytes)
            }
        }
        var samples = [[Double]](repeating: [], count: crowds.count)
        for _ in 0..<rounds {
            for (position, crowd) in crowds.enumerated() { samples[position].append(try crowd.take(seconds: seconds)) }
        }
        let nginx = samples[samples.count - 1]
        let rows = zip(ImageWay.allCases, samples).map { way, samples in
            let rate = Statistics.median(samples)
            return Report.Row(
                name: way.rawValue,
                metrics: [
                    .init(key: "megabytesPerSecond", title: "MB/s", value: rate / 1e6),
                    .init(key: "imagesPerSecond", title: "images/s", value: rate / Double(bytes)),
                    .init(
                        key: "ratioToNginx", title: "to nginx", value: Statistics.medianRatio(samples, to: nginx),
                        decimals: 2),
                ], samples: samples.map { $0 / 1e6 })
        }
        Report(
            benchmark: "image delivery",
            headline:
                "\(clients) clients, \(count) images of \(NumberText.grouped(Double(bytes), decimals: 0)) bytes, \(rounds) rounds of "
                + "\(NumberText.grouped(seconds, decimals: 1)) s",
            parameters: [
                ("bytes", .count(bytes)), ("count", .count(count)), ("clients", .count(clients)),
                ("rounds", .count(rounds)),
                ("seconds", .seconds(seconds)),
            ],
            rows: rows, comparedMetric: nil
        ).print(asJSON: printsJSON)
    }
}
