import Glibc
package import Logging

/// Chooses the log handler of a service.
package enum ServiceLog {
    /// Returns a ``JournalLogHandler`` if standard error is connected to the journal, otherwise a ``TextLogHandler``.
    ///
    ///     LoggingSystem.bootstrap(
    ///         { ServiceLog.handler(label: $0, identifier: "larderd", fieldPrefix: "LARDER_", metadataProvider: $1) },
    ///         metadataProvider: nil)
    ///
    /// - Parameters:
    ///   - label: the label of the logger
    ///   - identifier: the name of the program, `SYSLOG_IDENTIFIER` in the journal
    ///   - fieldPrefix: the prefix of metadata fields in the journal, such as `LARDER_`; not empty
    ///   - level: the lowest level that is written
    ///   - metadataProvider: provides further metadata for each statement
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

/// Detects output streams that are connected to the systemd journal (`systemd.exec(5)`, `$JOURNAL_STREAM`).
package enum JournalStream {
    /// Whether standard error is the stream that systemd connected to the journal, and has not been redirected since.
    /// If so, native journal entries appear in the same place as lines written to standard error, but with structured
    /// fields.
    package static var isStandardError: Bool {
        guard let variable = getenv("JOURNAL_STREAM") else { return false }
        return matches(STDERR_FILENO, String(cString: variable))
    }

    /// Compares a descriptor with a value of `JOURNAL_STREAM`: "DEVICE:INODE" in decimal.
    static func matches(_ descriptor: CInt, _ variable: String) -> Bool {
        let parts = variable.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let device = UInt64(parts[0]), let inode = UInt64(parts[1]) else { return false }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        return UInt64(status.st_dev) == device && UInt64(status.st_ino) == inode
    }
}
