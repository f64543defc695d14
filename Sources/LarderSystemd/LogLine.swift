import Glibc
import LarderEncoding
internal import Logging

/// Formats a log statement as one line of text. Line breaks in the statement are escaped.
enum LogLine {
    /// Formats a message and its metadata as `message key=value key="other value"`.
    static func text(_ message: String, _ members: [(key: String, value: String)]) -> String {
        var line = ""
        appendEscaped(message, to: &line, quoting: false)
        for (key, value) in members {
            line += " "
            appendValue(key, to: &line)
            line += "="
            appendValue(value, to: &line)
        }
        return line
    }

    /// The wall-clock time in milliseconds since 1970.
    static func now() -> Int {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    }

    /// Writes a line, with a single `write(2)` if possible, so that lines of several threads do not mix.
    ///
    /// On an error, the rest of the line is dropped. The error is not reported, because it could only be logged. If a
    /// non-blocking descriptor is full, the call waits for up to one second.
    static func write(_ line: String, to descriptor: CInt) {
        var line = line
        line.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
                if count > 0 {
                    rest = UnsafeRawBufferPointer(rebasing: rest[count...])
                } else if count < 0, errno == EINTR {
                    continue
                } else {
                    guard count < 0, errno == EAGAIN else { return }
                    var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    guard poll(&waiting, 1, 1000) > 0 else { return }
                }
            }
        }
    }

    /// Appends a key or value, in double quotes if it would be ambiguous without them.
    private static func appendValue(_ value: String, to line: inout String) {
        if !value.isEmpty, value.unicodeScalars.allSatisfy(isBare) {
            line += value
        } else {
            line += "\""
            appendEscaped(value, to: &line, quoting: true)
            line += "\""
        }
    }

    private static func appendEscaped(_ text: String, to line: inout String, quoting: Bool) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": line += "\\n"
            case "\r": line += "\\r"
            case "\t": line += "\\t"
            case "\"" where quoting: line += "\\\""
            case "\\" where quoting: line += "\\\\"
            case _ where scalar.isUnsafeInLine: line += "\\u{\(String(scalar.value, radix: 16))}"
            default: line.unicodeScalars.append(scalar)
            }
        }
    }

    private static func isBare(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case " ", "\"", "=", "\\": false
        default: !scalar.isUnsafeInLine
        }
    }
}

/// Prepares the metadata of a log statement for ``ServiceLogHandler``.
enum LogMetadata {
    /// Returns the metadata of one statement, sorted by key. Metadata of the statement overrides that of the provider,
    /// which overrides that of the handler. A logged error adds `error.message` and `error.type`, as in the handlers of
    /// swift-log.
    static func merged(
        _ own: Logger.Metadata, _ provider: Logger.MetadataProvider?, _ event: LogEvent
    ) -> [(key: String, value: String)] {
        var all = own
        if let provided = provider?.get() {
            all.merge(provided) { $1 }
        }
        if let explicit = event.metadata {
            all.merge(explicit) { $1 }
        }
        if let error = event.error {
            all["error.message"] = .string("\(error)")
            all["error.type"] = .string(String(reflecting: type(of: error)))
        }
        return all.map { (key: $0.key, value: text($0.value)) }.sorted { $0.key < $1.key }
    }

    /// Converts a value to text. Members of dictionaries are sorted, so that equal values have equal text.
    static func text(_ value: Logger.MetadataValue) -> String {
        switch value {
        case .string(let string): string
        case .stringConvertible(let convertible): convertible.description
        case .array(let values): "[\(values.map(text).joined(separator: ", "))]"
        case .dictionary(let members):
            "{\(members.sorted { $0.key < $1.key }.map { "\($0.key): \(text($0.value))" }.joined(separator: ", "))}"
        }
    }
}
