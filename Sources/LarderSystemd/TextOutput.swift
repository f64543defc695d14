import Glibc
import LarderEncoding
internal import Logging

/// Writes each log statement as one line of text: time, level, message and metadata.
///
///     2025-03-01T12:00:00.250Z warning upstream failed namespace=default reason="connection refused"
///
/// The time is RFC 3339 in UTC. Metadata is sorted by key. A value is quoted if it is empty or contains a space, a
/// quotation mark, an equals sign, a backslash or a control character. Control characters are always escaped, so a
/// statement stays on one line whatever a client sends.
struct TextOutput {
    private let descriptor: CInt
    private let isColored: Bool

    /// - Parameters:
    ///   - descriptor: the output, standard error by default. The caller owns it and keeps it open.
    ///   - isColored: whether the level is colored. By default, it is colored if the output is a terminal, unless
    ///     `NO_COLOR` is set or `TERM` is "dumb".
    init(descriptor: CInt = 2, isColored: Bool? = nil) {
        self.descriptor = descriptor
        self.isColored = isColored ?? Self.supportsColor(descriptor)
    }

    func write(_ event: LogEvent, _ members: [(key: String, value: String)]) {
        LogLine.write(line(for: event, members, at: LogLine.now()), to: descriptor)
    }

    /// Formats a statement as a line that ends with a line feed. The time is in milliseconds since 1970.
    func line(for event: LogEvent, _ members: [(key: String, value: String)], at time: Int) -> String {
        let text = LogLine.text(event.message.description, members)
        return "\(tm.text(milliseconds: time)) \(levelText(event.level)) \(text)\n"
    }

    private func levelText(_ level: Logger.Level) -> String {
        guard isColored else { return level.rawValue }
        let color =
            switch level {
            case .trace, .debug: "2"
            case .info: "0"
            case .notice: "36"
            case .warning: "33"
            case .error: "31"
            case .critical: "1;31"
            }
        return "\u{1b}[\(color)m\(level.rawValue)\u{1b}[0m"
    }

    private static func supportsColor(_ descriptor: CInt) -> Bool {
        guard isatty(descriptor) == 1 else { return false }
        if let refusal = getenv("NO_COLOR"), refusal.pointee != 0 { return false }  // no-color.org
        if let terminal = getenv("TERM"), String(cString: terminal) == "dumb" { return false }
        return true
    }
}
