import Glibc
package import Logging

/// Writes log statements to the systemd journal with structured fields (`sd_journal_sendv(3)`).
///
/// Besides `MESSAGE`, `PRIORITY`, `SYSLOG_IDENTIFIER`, `CODE_FILE`, `CODE_LINE` and `CODE_FUNC`, each metadata value
/// becomes a field whose name begins with a prefix. For example, `journalctl LARDER_NAMESPACE=default` finds all
/// entries about one namespace. The label of the logger becomes the field `LOGGER`, with the same prefix. An entry that
/// journald rejects is written to standard error as a line of text.
package struct JournalLogHandler: LogHandler {
    /// The lowest level that is written.
    package var logLevel: Logger.Level
    /// Metadata that is added to every statement.
    package var metadata: Logger.Metadata = [:]
    /// Provides further metadata for each statement.
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let identifier: String
    private let fieldPrefix: String

    /// - Parameters:
    ///   - label: the label of the logger; not written if empty
    ///   - identifier: the name of the program, written as `SYSLOG_IDENTIFIER` and selected by `journalctl -t`
    ///   - fieldPrefix: the prefix of metadata fields, such as `LARDER_`. Without a prefix, metadata could replace the
    ///     journal's own fields.
    ///   - level: the lowest level that is written
    ///   - metadataProvider: provides further metadata for each statement
    package init(
        label: String, identifier: String, fieldPrefix: String, level: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil
    ) {
        self.label = label
        self.identifier = identifier
        self.fieldPrefix = fieldPrefix
        self.logLevel = level
        self.metadataProvider = metadataProvider
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let entry = entry(for: event)
        guard entry.send() != 0 else { return }
        let members = LogMetadata.merged(metadata, metadataProvider, event)
        // journald reads the level from the prefix of a line (sd-daemon(3)) and adds the time itself.
        LogLine.write(
            "<\(Self.priority(event.level))>\(LogLine.text(event.message.description, members))\n", to: STDERR_FILENO)
    }

    func entry(for event: LogEvent) -> JournalEntry {
        var entry = JournalEntry()
        entry.add("MESSAGE", event.message.description)
        entry.add("PRIORITY", String(Self.priority(event.level)))
        entry.add("SYSLOG_IDENTIFIER", identifier)
        entry.add("CODE_FILE", event.file)
        entry.add("CODE_LINE", String(event.line))
        entry.add("CODE_FUNC", event.function)
        if !label.isEmpty, let name = JournalEntry.fieldName("LOGGER", prefix: fieldPrefix) {
            entry.add(name, label)
        }
        for (key, value) in LogMetadata.merged(metadata, metadataProvider, event) {
            guard let name = JournalEntry.fieldName(key, prefix: fieldPrefix) else { continue }
            entry.add(name, value)
        }
        return entry
    }

    /// The priority of `syslog(3)` for a level, such as 7 for debug and 2 for critical.
    static func priority(_ level: Logger.Level) -> CInt {
        switch level {
        case .trace, .debug: LOG_DEBUG
        case .info: LOG_INFO
        case .notice: LOG_NOTICE
        case .warning: LOG_WARNING
        case .error: LOG_ERR
        case .critical: LOG_CRIT
        }
    }
}
