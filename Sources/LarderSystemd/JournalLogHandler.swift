import Glibc
internal import Logging

/// Writes log statements to the systemd journal with structured fields (`sd_journal_sendv(3)`).
///
/// Besides `MESSAGE`, `PRIORITY`, `SYSLOG_IDENTIFIER`, `CODE_FILE`, `CODE_LINE` and `CODE_FUNC`, each metadata value
/// becomes a field whose name begins with a prefix. For example, `journalctl LARDER_NAMESPACE=default` finds all
/// entries about one namespace. The label of the logger becomes the field `LOGGER`, with the same prefix. An entry that
/// journald rejects is written to standard error as a line of text.
struct JournalOutput {
    /// The label of the logger; not written if empty.
    let label: String
    let identifier: String
    let fieldPrefix: String

    func write(_ event: LogEvent, _ members: [(key: String, value: String)]) {
        guard entry(for: event, members).send() != 0 else { return }
        // journald reads the level from the prefix of a line (sd-daemon(3)) and adds the time itself.
        LogLine.write(
            "<\(Self.priority(event.level))>\(LogLine.text(event.message.description, members))\n", to: STDERR_FILENO)
    }

    func entry(for event: LogEvent, _ members: [(key: String, value: String)]) -> JournalEntry {
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
        for (key, value) in members {
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
