import Glibc

/// Whether an output stream ends in the system's journal (`systemd.exec(5)`, `$JOURNAL_STREAM`).
public enum JournalStream {
    /// Whether standard error is the very stream that systemd connected to the journal, and was not redirected since.
    ///
    /// If so, native journal entries say more than lines of text, and both end in the same place.
    public static var isStandardError: Bool {
        guard let variable = getenv("JOURNAL_STREAM") else { return false }
        return matches(STDERR_FILENO, String(cString: variable))
    }

    /// Compares a descriptor with the value of `JOURNAL_STREAM`, "DEVICE:INODE" in decimal.
    static func matches(_ descriptor: CInt, _ variable: String) -> Bool {
        let parts = variable.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let device = UInt64(parts[0]), let inode = UInt64(parts[1]) else { return false }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        return UInt64(status.st_dev) == device && UInt64(status.st_ino) == inode
    }
}
