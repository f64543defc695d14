/// What a process holds in memory.
struct ResidentMemory: Sendable {
    /// All pages it has in memory, those shared with other processes included.
    let residentBytes: Int
    /// Pages of its own; nil where the kernel keeps that from us.
    let privateBytes: Int?

    /// Reads /proc/PID/smaps_rollup, or /proc/PID/status where the former is forbidden (proc_pid_smaps(5)).
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
        throw BenchError(.system, "no process \(process), or not ours to look at (/proc/\(process))")
    }
}
