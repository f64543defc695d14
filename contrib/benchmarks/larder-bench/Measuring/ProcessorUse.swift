import Foundation
import Glibc

/// The processor time of the load generator, of the server, and of other processes, which disturb the measurement.
struct ProcessorUse: Sendable {
    /// Seconds of processor time.
    var client = 0.0
    var server = 0.0
    var others = 0.0
    /// Elapsed seconds times the number of processors.
    var available = 0.0
    /// Whether the server's processor time is known.
    var isServerMeasured = true

    /// The processor time of the load generator, divided by that of the load generator and the server together.
    var clientShare: Double { client + server > 0 ? client / (client + server) : 0 }
    /// The share of the machine that other processes used.
    var othersShare: Double { available > 0 ? others / available : 0 }
}

extension [ProcessorUse] {
    /// The sum of all elements.
    var combined: ProcessorUse {
        var sum = ProcessorUse()
        for use in self {
            sum.client += use.client
            sum.server += use.server
            sum.others += use.others
            sum.available += use.available
            sum.isServerMeasured = sum.isServerMeasured && use.isServerMeasured
        }
        return sum
    }
}

/// Measures ``ProcessorUse`` between its creation and ``use()``. The kernel counts the time of other processes in steps
/// of 10 ms.
struct ProcessorMeter {
    private let server: pid_t?
    private let started = MonotonicClock.nanoseconds()
    private let clientAtStart = Self.clientSeconds()
    private let serverAtStart: Double?
    private let machineAtStart = Self.machineSeconds()

    /// Starts the measurement.
    /// - Parameter server: the process of the server; nil if it is not known.
    init(server: pid_t?) {
        self.server = server
        serverAtStart = server.flatMap(Self.processSeconds)
    }

    /// Returns the processor time since the start.
    func use() -> ProcessorUse {
        var use = ProcessorUse()
        use.client = Self.clientSeconds() - clientAtStart
        if let before = serverAtStart, let now = server.flatMap(Self.processSeconds) {
            use.server = now - before
        } else {
            use.isServerMeasured = false
        }
        let elapsed = Double(MonotonicClock.nanoseconds() &- started) / 1e9
        use.available = elapsed * Double(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        if use.isServerMeasured {
            use.others = max(0, Self.machineSeconds() - machineAtStart - use.client - use.server)
        }
        return use
    }

    /// The processor time of this process in seconds.
    static func clientSeconds() -> Double { seconds(on: CLOCK_PROCESS_CPUTIME_ID) }

    /// The processor time of all threads of a process in seconds, with nanosecond resolution; nil if the process does
    /// not exist.
    private static func processSeconds(_ process: pid_t) -> Double? {
        var clock = clockid_t()
        return clock_getcpuclockid(process, &clock) == 0 ? seconds(on: clock) : nil
    }

    private static func seconds(on clock: clockid_t) -> Double {
        var time = timespec()
        return clock_gettime(clock, &time) == 0 ? Double(time.tv_sec) + Double(time.tv_nsec) / 1e9 : 0
    }

    /// The time in seconds that the processors were not idle. It includes the time that the hypervisor gave to other
    /// virtual machines ("steal"): proc_stat(5).
    private static func machineSeconds() -> Double {
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            let line = text.split(separator: "\n").first
        else { return 0 }
        let fields = line.split(separator: " ").dropFirst().compactMap { Double($0) }
        guard fields.count >= 8 else { return 0 }
        let user = fields[0], nice = fields[1], system = fields[2], interrupts = fields[5] + fields[6],
            steal = fields[7]
        return (user + nice + system + interrupts + steal) / ticksPerSecond
    }

    private static var ticksPerSecond: Double { Double(max(1, sysconf(Int32(_SC_CLK_TCK)))) }
}
