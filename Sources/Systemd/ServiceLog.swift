public import Logging

/// Where a service's log goes.
public enum ServiceLog {
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
    public static func handler(
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
