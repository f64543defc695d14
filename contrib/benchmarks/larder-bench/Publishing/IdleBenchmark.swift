import ArgumentParser
import Glibc

/// `larder-bench idle`: the memory of an idle server, and the memory that each subscriber adds.
struct IdleBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Resident memory at rest, and for each idle subscriber.",
        discussion: """
            The server's process is asked from the socket, or given with --pid. Resident memory is what the kernel \
            counts in /proc/PID/smaps_rollup, shared pages included. MB are 10^6 bytes.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The process to look at, in place of the one that serves the socket.")
    var pid: Int32?

    @Option(help: "Idle subscribers to add after the first look.")
    var subscribers = 0

    @Option(help: "The path they subscribe to; in Redis the channel.")
    var path = "bench.idle"

    @Option(help: "The namespace they subscribe to.")
    var namespace = "default"

    @Option(help: "Seconds to wait before each look.")
    var settle = 1.0

    mutating func validate() throws {
        if pid == nil { try servers.requireServer() }
        guard pid == nil || servers.peers.count <= 1 else {
            throw ValidationError("--pid goes with one server at most.")
        }
        guard subscribers >= 0, settle >= 0 else { throw ValidationError("Numbers must not be negative.") }
        guard subscribers == 0 || !servers.peers.isEmpty else {
            throw ValidationError("--subscribers needs a server's socket.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: subscribers)
        var rows: [Report.Row] = []
        if servers.peers.isEmpty, let pid { rows.append(row("process", try rest(of: pid), nil)) }
        for peer in servers.peers { rows.append(try measure(peer)) }
        Report(
            benchmark: "idle",
            headline: "resident memory" + (subscribers > 0 ? " without and with \(subscribers) idle subscribers" : ""),
            parameters: [
                ("subscribers", .count(subscribers)), ("path", .text(path)), ("namespace", .text(namespace)),
            ],
            rows: rows, comparedMetric: "residentMegabytes"
        ).print(asJSON: servers.printsJSON)
    }

    private func measure(_ peer: Peer) throws -> Report.Row {
        let control = try ControlConnection(to: peer)
        guard let process = pid ?? control.serverProcess else {
            throw BenchError(.system, "\(peer.name): the kernel does not say which process serves; name it with --pid")
        }
        guard subscribers > 0 else { return row(peer.name, try rest(of: process), nil) }
        try control.ask(peer.setRequest(path: path, namespace: namespace, value: "idle"))
        let before = try rest(of: process)
        let crowd = try SubscriberCrowd(
            peer, count: subscribers, request: peer.subscribeRequest(path: path, namespace: namespace, channel: path))
        return try withExtendedLifetime(crowd) { row(peer.name, before, try rest(of: process)) }
    }

    private func rest(of process: Int32) throws -> ResidentMemory {
        usleep(UInt32(min(settle, 60) * 1_000_000))
        return try ResidentMemory.of(process: process)
    }

    private func row(_ name: String, _ before: ResidentMemory, _ after: ResidentMemory?) -> Report.Row {
        func megabytes(_ key: String, _ title: String, _ bytes: Int) -> Report.Metric {
            Report.Metric(key: key, title: title, value: Double(bytes) / 1e6, decimals: 1)
        }
        var metrics = [megabytes("residentMegabytes", "resident MB", before.residentBytes)]
        if let own = before.privateBytes { metrics.append(megabytes("privateMegabytes", "private MB", own)) }
        if let after {
            metrics.append(megabytes("subscribedResidentMegabytes", "with subscribers MB", after.residentBytes))
            let each = Double(after.residentBytes - before.residentBytes) / Double(subscribers)
            metrics.append(Report.Metric(key: "bytesPerSubscriber", title: "bytes per subscriber", value: each))
        }
        return Report.Row(name: name, metrics: metrics, samples: [Double(before.residentBytes) / 1e6])
    }
}
