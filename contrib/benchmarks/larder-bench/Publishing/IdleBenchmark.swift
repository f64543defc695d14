import ArgumentParser
import Glibc

/// `larder-bench idle`: the memory of an idle server, and the memory that each subscriber adds.
struct IdleBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Measure resident memory at rest, and per idle subscriber.",
        discussion: """
            The process of a server is found through its socket, unless --pid is given. Resident memory is Rss in \
            /proc/PID/smaps_rollup, including shared pages. A MB is 10^6 bytes.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The process to measure instead of the one that serves the socket.")
    var pid: Int32?

    @Option(help: "The number of idle subscribers to add after the first measurement.")
    var subscribers = 0

    @Option(help: "The path that they subscribe to; for Redis the channel.")
    var path = "bench.idle"

    @Option(help: "The namespace that they subscribe to.")
    var namespace = "default"

    @Option(help: "The number of seconds to wait before each measurement.")
    var settle = 1.0

    mutating func validate() throws {
        if pid == nil { try servers.requireServer() }
        guard pid == nil || servers.peers.count <= 1 else {
            throw ValidationError("--pid can be used with one server only.")
        }
        guard subscribers >= 0, settle >= 0 else {
            throw ValidationError("--subscribers and --settle must not be negative.")
        }
        guard subscribers == 0 || !servers.peers.isEmpty else {
            throw ValidationError("--subscribers requires the socket of a server.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: subscribers)
        var rows: [Report.Row] = []
        if servers.peers.isEmpty, let pid { rows.append(row("process", try memory(of: pid), nil)) }
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
            throw BenchError(
                .system, "\(peer.name): the kernel does not report the process of the server; pass it with --pid")
        }
        guard subscribers > 0 else { return row(peer.name, try memory(of: process), nil) }
        try control.request(peer.setRequest(path: path, namespace: namespace, value: "idle"))
        let before = try memory(of: process)
        let group = try SubscriberGroup(
            peer, count: subscribers, request: peer.subscribeRequest(path: path, namespace: namespace, channel: path))
        return try withExtendedLifetime(group) { row(peer.name, before, try memory(of: process)) }
    }

    private func memory(of process: Int32) throws -> ResidentMemory {
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
