import Glibc
package import Logging

/// Writes each log statement as one line of text: time, level, message, metadata.
///
///     2025-03-01T12:00:00.250Z warning upstream failed namespace=default reason="connection refused"
///
/// The time is RFC 3339 in UTC; metadata is sorted by key. A value that is empty or holds a space, a quotation mark, an
/// equals sign, a backslash or a control character is quoted, and control characters are escaped everywhere: whatever a
/// peer sends, a statement stays one line.
package struct TextLogHandler: LogHandler {
    /// The lowest level that is written.
    package var logLevel: Logger.Level
    /// Metadata that every statement carries.
    package var metadata: Logger.Metadata = [:]
    /// Adds metadata at the time of each statement.
    package var metadataProvider: Logger.MetadataProvider?

    private let descriptor: CInt
    private let isColoured: Bool

    /// A handler for one logger.
    ///
    /// - Parameters:
    ///   - descriptor: Where the lines go; it stays open and belongs to the caller. Standard error by default.
    ///   - level: The lowest level that is written.
    ///   - isColoured: Whether the level is shown in colour. By default on a terminal only, and not where `NO_COLOR` is
    ///     set or `TERM` is "dumb".
    ///   - metadataProvider: Adds metadata at the time of each statement.
    package init(
        descriptor: CInt = 2, level: Logger.Level = .info, isColoured: Bool? = nil,
        metadataProvider: Logger.MetadataProvider? = nil
    ) {
        self.descriptor = descriptor
        self.logLevel = level
        self.isColoured = isColoured ?? Self.takesColour(descriptor)
        self.metadataProvider = metadataProvider
    }

    /// One piece of the metadata that every statement carries.
    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes one statement.
    package func log(event: LogEvent) {
        LogLine.write(line(for: event, at: LogLine.now()), to: descriptor)
    }

    /// The line for a statement made at a time (milliseconds since 1970 in UTC), with its line feed.
    func line(for event: LogEvent, at time: Int) -> String {
        let members = LogMetadata.merged(metadata, metadataProvider, event)
        let text = LogLine.text(event.message.description, members)
        return "\(LogLine.timestamp(time)) \(levelText(event.level)) \(text)\n"
    }

    private func levelText(_ level: Logger.Level) -> String {
        guard isColoured else { return level.rawValue }
        let colour =
            switch level {
            case .trace, .debug: "2"
            case .info: "0"
            case .notice: "36"
            case .warning: "33"
            case .error: "31"
            case .critical: "1;31"
            }
        return "\u{1b}[\(colour)m\(level.rawValue)\u{1b}[0m"
    }

    private static func takesColour(_ descriptor: CInt) -> Bool {
        guard isatty(descriptor) == 1 else { return false }
        if let refusal = getenv("NO_COLOR"), refusal.pointee != 0 { return false }  // no-color.org
        if let terminal = getenv("TERM"), String(cString: terminal) == "dumb" { return false }
        return true
    }
}
