import ArgumentParser

/// The servers to measure.
struct PeerOptions: ParsableArguments {
    @Option(name: .customLong("socket"), help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var larderSocket: String?

    @Option(
        name: .customLong("redis-socket"),
        help: ArgumentHelp("The Unix socket of Redis (setting unixsocket).", valueName: "path"))
    var redisSocket: String?

    @Option(
        name: .customLong("etcd-socket"),
        help: ArgumentHelp("The Unix socket of etcd (option --listen-client-urls unix://…).", valueName: "path"))
    var etcdSocket: String?

    @Option(
        name: .customLong("floor-socket"),
        help: ArgumentHelp("The socket of contrib/benchmarks/floor.", valueName: "path"))
    var floorSocket: String?

    /// The servers in the order in which they are measured. The report compares the first with the second.
    var peers: [Peer] {
        [
            larderSocket.map { Peer(kind: .larder, socketPath: $0) },
            redisSocket.map { Peer(kind: .redis, socketPath: $0) },
            etcdSocket.map { Peer(kind: .etcd, socketPath: $0) },
            floorSocket.map { Peer(kind: .floor, socketPath: $0) },
        ].compactMap { $0 }
    }

    var names: [String] { peers.map(\.name) }

    /// Rejects a command line without a server.
    func requireServer() throws {
        guard !peers.isEmpty else { throw ValidationError("Pass the socket of a server, such as --socket PATH.") }
    }
}
