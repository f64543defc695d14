import Glibc
package import Logging
internal import Synchronization

/// Writes the log statements of a service: to the systemd journal (``JournalOutput``) if standard error is connected to
/// it, otherwise as lines of text (``TextOutput``).
///
///     LoggingSystem.bootstrap(
///         { ServiceLogHandler(label: $0, identifier: "larderd", fieldPrefix: "LARDER_", metadataProvider: $1) },
///         metadataProvider: nil)
package struct ServiceLogHandler: LogHandler {
    enum Output {
        case journal(JournalOutput)
        case text(TextOutput)
    }

    /// The lowest level that is written: that of the process, unless it was set for this logger.
    package var logLevel: Logger.Level {
        get { ownLevel ?? processLevel.value }
        set { ownLevel = newValue }
    }
    private var ownLevel: Logger.Level?
    private let processLevel: ProcessLogLevel
    /// Metadata that is added to every statement.
    package var metadata: Logger.Metadata = [:]
    /// Provides further metadata for each statement.
    package var metadataProvider: Logger.MetadataProvider?
    let output: Output

    /// - Parameters:
    ///   - label: the label of the logger; not written if empty
    ///   - identifier: the name of the program, written as `SYSLOG_IDENTIFIER` and selected by `journalctl -t`
    ///   - fieldPrefix: the prefix of metadata fields in the journal, such as `LARDER_`. Without a prefix, metadata
    ///     could replace the journal's own fields.
    ///   - level: the lowest level that is written; a later change has effect on this logger, too
    ///   - metadataProvider: provides further metadata for each statement
    package init(
        label: String, identifier: String, fieldPrefix: String, level: ProcessLogLevel = ProcessLogLevel(.info),
        metadataProvider: Logger.MetadataProvider? = nil
    ) {
        self.init(
            JournalStream.isStandardError
                ? .journal(JournalOutput(label: label, identifier: identifier, fieldPrefix: fieldPrefix))
                : .text(TextOutput()),
            level: level)
        self.metadataProvider = metadataProvider
    }

    init(_ output: Output, level: ProcessLogLevel = ProcessLogLevel(.info)) {
        self.output = output
        processLevel = level
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let members = LogMetadata.merged(metadata, metadataProvider, event)
        switch output {
        case .journal(let journal): journal.write(event, members)
        case .text(let text): text.write(event, members)
        }
    }
}

/// The lowest level that the loggers of a process write. It can change while they exist.
package final class ProcessLogLevel: Sendable {
    private static let levels = Logger.Level.allCases
    /// The index of the level in ``levels``.
    private let index: Atomic<Int>

    package init(_ level: Logger.Level) { index = Atomic(Self.index(of: level)) }

    package var value: Logger.Level {
        get { Self.levels[index.load(ordering: .relaxed)] }
        set { index.store(Self.index(of: newValue), ordering: .relaxed) }
    }

    private static func index(of level: Logger.Level) -> Int { levels.firstIndex(of: level) ?? 0 }
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
