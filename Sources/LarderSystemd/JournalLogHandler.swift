import Glibc
package import Logging

/// Writes log statements to the system's journal with their fields kept apart (`sd_journal_sendv(3)`).
///
/// Besides `MESSAGE`, `PRIORITY`, `SYSLOG_IDENTIFIER`, `CODE_FILE`, `CODE_LINE` and `CODE_FUNC`, every piece of metadata
/// becomes a field of its own behind a prefix, so that `journalctl LARDER_NAMESPACE=default` finds what belongs
/// together; the logger's label is the field `LOGGER` behind the same prefix. An entry that journald refuses goes to
/// standard error as a line of text.
package struct JournalLogHandler: LogHandler {
    /// The lowest level that is written.
    package var logLevel: Logger.Level
    /// Metadata that every statement carries.
    package var metadata: Logger.Metadata = [:]
    /// Adds metadata at the time of each statement.
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let identifier: String
    private let fieldPrefix: String

    /// A handler for one logger.
    ///
    /// - Parameters:
    ///   - label: The logger's label; left out of the entries when empty.
    ///   - identifier: `SYSLOG_IDENTIFIER`, what `journalctl -t` selects: the program's name.
    ///   - fieldPrefix: What every metadata field's name begins with, such as `LARDER_`. Without one,
    ///     metadata could pass for the journal's own fields.
    ///   - level: The lowest level that is written.
    ///   - metadataProvider: Adds metadata at the time of each statement.
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

    /// One piece of the metadata that every statement carries.
    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes one statement.
    package func log(event: LogEvent) {
        let entry = entry(for: event)
        guard entry.send() != 0 else { return }
        let members = LogMetadata.merged(metadata, metadataProvider, event)
        // journald reads the level of a line of text from a prefix (sd-daemon(3)), and has the time itself.
        LogLine.write(
            "<\(Self.priority(event.level))>\(LogLine.text(event.message.description, members))\n", to: STDERR_FILENO)
    }

    /// The journal entry for a statement.
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

    /// The level as `syslog(3)` counts: 7 is debug, 2 is critical.
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
