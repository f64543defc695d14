import Logging
import Synchronization

/// A log that a test reads: level, message, and the fields in the order of their names.
final class LogLines: Sendable {
    /// One statement.
    struct Line: Equatable {
        let level: Logger.Level
        let message: String
        let fields: [String: String]
    }

    private let kept = Mutex<[Line]>([])

    /// What came since the last look.
    var taken: [Line] {
        kept.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }

    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let fields = (event.metadata ?? [:]).mapValues { "\($0)" }
            lines.kept.withLock {
                $0.append(Line(level: event.level, message: event.message.description, fields: fields))
            }
        }
    }
}
