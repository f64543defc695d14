import ArgumentParser
import Foundation
import Glibc
import LarderJSON

/// `larder-bench idle`: the memory of an idle server, and the memory that each subscriber adds.
struct IdleBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle", abstract: "Measure resident memory at rest, and per idle subscriber.",
        discussion: """
            The process of a server is found through its socket. Resident memory is Rss in /proc/PID/smaps_rollup, \
            including shared pages. A MB is 10^6 bytes.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The number of idle subscribers to add after the first measurement.")
    var subscribers = 0

    /// The pause before each measurement, in which a server finishes its start or the work for new subscribers.
    private static let pauseMicroseconds: UInt32 = 1_000_000

    mutating func validate() throws {
        try servers.requireServer()
        guard subscribers >= 0 else { throw ValidationError("--subscribers must not be negative.") }
    }

    mutating func run() throws {
        let rows = try servers.peers.map(measure)
        Report(
            benchmark: "idle",
            headline: "resident memory" + (subscribers > 0 ? " without and with \(subscribers) idle subscribers" : ""),
            rows: rows, comparedMetric: "residentMegabytes"
        ).print()
    }

    private func measure(_ peer: Peer) throws -> Report.Row {
        let (path, namespace) = ("bench.idle", "default")
        let control = try ControlConnection(to: peer)
        guard let process = control.serverProcess else {
            throw BenchError("\(peer.name): the kernel does not report the process of the server")
        }
        if subscribers > 0 { try control.request(peer.setRequest(path: path, namespace: namespace, value: "idle")) }
        let before = try residentBytes(process)
        var metrics = [(key: "residentMegabytes", value: Double(before) / 1e6)]
        if subscribers > 0 {
            let group = try SubscriberGroup(
                peer, count: subscribers, request: peer.subscribeRequest(path: path, namespace: namespace))
            let after = try withExtendedLifetime(group) { try residentBytes(process) }
            let each = Double(after - before) / Double(subscribers)
            metrics.append(("bytesPerSubscriber", each))
        }
        return Report.Row(name: peer.name, metrics: metrics, samples: [Double(before) / 1e6])
    }

    /// Waits, and returns the size of the resident pages of a process, including those shared with other processes:
    /// proc_pid_smaps(5).
    private func residentBytes(_ process: Int32) throws -> Int {
        usleep(Self.pauseMicroseconds)
        let text = try String(contentsOfFile: "/proc/\(process)/smaps_rollup", encoding: .utf8)
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Rss:") }),
            let kilobytes = line.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { throw BenchError("the file /proc/\(process)/smaps_rollup has no line \"Rss\"") }
        return kilobytes * 1024
    }
}
