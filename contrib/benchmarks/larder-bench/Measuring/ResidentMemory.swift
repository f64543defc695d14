/// The memory of a process.
struct ResidentMemory: Sendable {
    /// The resident pages, including those shared with other processes.
    let residentBytes: Int
    /// The private pages; nil if the kernel does not allow reading them.
    let privateBytes: Int?

    /// Reads /proc/PID/smaps_rollup, or /proc/PID/status if access to it is denied (proc_pid_smaps(5)).
    static func of(process: Int32) throws(BenchError) -> ResidentMemory {
        if let text = ProcessFile.text("/proc/\(process)/smaps_rollup"),
            let resident = ProcessFile.number(after: "Rss:", in: text)
        {
            let clean = ProcessFile.number(after: "Private_Clean:", in: text) ?? 0
            let dirty = ProcessFile.number(after: "Private_Dirty:", in: text) ?? 0
            return ResidentMemory(residentBytes: resident * 1024, privateBytes: (clean + dirty) * 1024)
        }
        if let text = ProcessFile.text("/proc/\(process)/status"),
            let resident = ProcessFile.number(after: "VmRSS:", in: text)
        {
            return ResidentMemory(residentBytes: resident * 1024, privateBytes: nil)
        }
        throw BenchError(
            .system, "cannot read the memory usage of process \(process) in /proc; run as its user or as root")
    }
}
