package import Logging
import Synchronization

/// Records log entries so that a test can check them.
package final class LogRecorder: Sendable {
    package struct Entry: Equatable, Sendable {
        package let level: Logger.Level
        package let message: String
        package let fields: [String: String]
    }

    private let entries = Mutex<[Entry]>([])

    package init() {}

    package var logger: Logger { Logger(label: "test") { _ in Handler(recorder: self) } }

    /// Returns and removes the entries since the last call.
    package func take() -> [Entry] {
        entries.withLock { entries in
            defer { entries = [] }
            return entries
        }
    }

    private struct Handler: LogHandler {
        let recorder: LogRecorder
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let fields = (event.metadata ?? [:]).mapValues { "\($0)" }
            recorder.entries.withLock {
                $0.append(Entry(level: event.level, message: event.message.description, fields: fields))
            }
        }
    }
}
