import Glibc
import LarderJSON
import TestSupport

/// A member of a real etcd cluster on 127.0.0.1.
final class EtcdServer {
    let name: String
    let clientPort: Int
    let peerPort: Int
    private let directory: String
    private let options: [String]
    private let cluster: String
    private var process: ChildProcess?

    /// The port for TLS clients. The server listens on it only if its options contain `@TLS@`.
    let securePort: Int

    /// Starts a cluster of one member.
    static func start(in directory: String, options: [String] = []) throws -> EtcdServer {
        try onFreePorts(in: directory) {
            let (client, peer, secure) = try (LoopbackPort.free(), LoopbackPort.free(), LoopbackPort.free())
            let server = EtcdServer(
                "a", in: directory, ports: (client, peer, secure), cluster: "a=http://127.0.0.1:\(peer)",
                options: options)
            try server.start()
            return server
        }
    }

    /// Starts a cluster of three members.
    static func cluster(in directory: String) throws -> [EtcdServer] {
        try onFreePorts(in: directory) {
            let names = ["a", "b", "c"]
            let ports = try names.map { _ in try (LoopbackPort.free(), LoopbackPort.free(), LoopbackPort.free()) }
            let cluster = zip(names, ports).map { "\($0)=http://127.0.0.1:\($1.1)" }.joined(separator: ",")
            let servers = zip(names, ports).map {
                // The heartbeat interval and the election timeout are long enough for a busy machine.
                EtcdServer(
                    $0, in: directory, ports: $1, cluster: cluster,
                    options: ["--heartbeat-interval", "200", "--election-timeout", "2000"])
            }
            for server in servers { try server.launch() }
            for server in servers { try server.waitUntilReady() }
            return servers
        }
    }

    /// Retries `start` with other ports. etcd cannot choose a free port itself, so a process that is not part of the
    /// tests can take a port between the moment it is found and the moment etcd binds it.
    private static func onFreePorts<Servers>(in directory: String, _ start: () throws -> Servers) throws -> Servers {
        for _ in 0..<5 {
            if let servers = try? start() { return servers }
            try Command.run("sh", ["-c", "rm -rf \(directory)/etcd-?"])
        }
        return try start()
    }

    /// - Parameter options: Additional options of etcd. In them, `@` stands for `directory`, and `@TLS@` for the client
    ///   URLs, one of which is an https URL.
    init(
        _ name: String, in directory: String, ports: (client: Int, peer: Int, secure: Int), cluster: String,
        options: [String] = []
    ) {
        self.name = name
        self.directory = directory
        self.cluster = cluster
        (clientPort, peerPort, securePort) = ports
        self.options = options
    }

    var url: String { "http://127.0.0.1:\(clientPort)" }

    // MARK: Life cycle

    /// Starts the server, with its existing data if any, and returns once it serves clients.
    func start() throws {
        try launch()
        try waitUntilReady()
    }

    private func launch() throws {
        let (client, peer) = (url, "http://127.0.0.1:\(peerPort)")
        var arguments = [
            "--name", name, "--data-dir", directory + "/etcd-" + name, "--logger", "zap", "--log-outputs", "stderr",
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--advertise-client-urls", client,
            "--initial-cluster", cluster,
        ]
        if !options.contains("--listen-client-urls") { arguments += ["--listen-client-urls", client] }
        arguments += options.map {
            $0.replacing("@TLS@", with: "\(client),https://127.0.0.1:\(securePort)").replacing("@", with: directory)
        }
        process = try ChildProcess("etcd", arguments, environment: ChildProcess.environment)
    }

    private func waitUntilReady() throws {
        try process?.waitForLog("serving client traffic insecurely")
        // A successful put proves that the cluster has a leader. With authentication, the rejection of the put proves
        // the same.
        try retrying {
            do {
                try EtcdGateway(port: clientPort).put("/harness/\(name)", "ready")
            } catch let refusal as EtcdGateway.Refusal where refusal.body.contains("user name is empty") {}
        }
    }

    /// Sends SIGKILL.
    func kill() { process?.kill() }

    /// Kills the server and deletes its data.
    func destroy() throws {
        kill()
        try Command.run("rm", ["-rf", directory + "/etcd-" + name])
    }

    /// Returns this member as part of a different cluster. etcd derives the cluster ID from `token`.
    func moved(toToken token: String) -> EtcdServer {
        EtcdServer(
            name, in: directory, ports: (clientPort, peerPort, securePort), cluster: cluster,
            options: options + ["--initial-cluster-token", token])
    }

    /// Whether this member is the leader of its cluster.
    func isLeader() throws -> Bool {
        let status = try EtcdGateway(port: clientPort).call("/v3/maintenance/status", [:])
        return status["leader"]?.string != nil && status["leader"] == status["header"]?["member_id"]
    }
}

/// Repeats `body` every 50 ms until it returns. Throws the last error of `body` when the deadline has passed.
@discardableResult
func retrying<Value>(until deadline: Deadline = .usual, _ body: () throws -> Value) throws -> Value {
    while true {
        do {
            return try body()
        } catch {
            if deadline.hasPassed { throw error }
            _ = poll(nil, 0, 50)
        }
    }
}
