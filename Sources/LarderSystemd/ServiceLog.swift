import Glibc
package import Logging

/// Where a service's log goes.
package enum ServiceLog {
    /// The handler that fits standard error: a ``JournalLogHandler`` when it is the journal, else a ``TextLogHandler``.
    ///
    ///     LoggingSystem.bootstrap(
    ///         { ServiceLog.handler(label: $0, identifier: "larderd", fieldPrefix: "LARDER_", metadataProvider: $1) },
    ///         metadataProvider: nil)
    ///
    /// - Parameters:
    ///   - label: The logger's label.
    ///   - identifier: The program's name, `SYSLOG_IDENTIFIER` in the journal.
    ///   - fieldPrefix: What every metadata field's name in the journal begins with, such as `LARDER_`; not empty.
    ///   - level: The lowest level that is written.
    ///   - metadataProvider: Adds metadata at the time of each statement.
    package static func handler(
        label: String, identifier: String, fieldPrefix: String, level: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil
    ) -> any LogHandler {
        guard JournalStream.isStandardError else {
            return TextLogHandler(level: level, metadataProvider: metadataProvider)
        }
        return JournalLogHandler(
            label: label, identifier: identifier, fieldPrefix: fieldPrefix, level: level,
            metadataProvider: metadataProvider)
    }
}

/// Whether an output stream ends in the system's journal (`systemd.exec(5)`, `$JOURNAL_STREAM`).
package enum JournalStream {
    /// Whether standard error is the very stream that systemd connected to the journal, and was not redirected since.
    ///
    /// If so, native journal entries say more than lines of text, and both end in the same place.
    package static var isStandardError: Bool {
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
