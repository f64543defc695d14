internal import CSystemd
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

/// The fields of one journal entry in the format of `sd_journal_sendv(3)`: "NAME=value", with arbitrary bytes in the
/// value.
struct JournalEntry {
    /// All fields, concatenated.
    private(set) var bytes: [UInt8] = []
    /// The range of each field in ``bytes``.
    private(set) var ranges: [Range<Int>] = []

    init() {
        bytes.reserveCapacity(512)
        ranges.reserveCapacity(16)
    }

    /// Adds a field. The value can contain any bytes; a line break does not start another field.
    mutating func add(_ name: String, _ value: String) {
        let start = bytes.count
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: "="))
        bytes.append(contentsOf: value.utf8)
        ranges.append(start..<bytes.count)
    }

    /// Converts a metadata key to the name of a journal field. With the prefix `LARDER_`, `peerPID` becomes
    /// `LARDER_PEER_PID`.
    ///
    /// A field name begins with a letter and has at most 64 characters: A to Z, 0 to 9 and underscores
    /// (`systemd.journal-fields(7)`). Names that begin with an underscore are reserved for trusted fields of journald.
    /// A character that is not allowed becomes an underscore, and an underscore is inserted at each word boundary in
    /// camel case. Characters before the first letter are dropped, and a name is cut off after 64 characters. Nil if
    /// the key is empty, or if neither the prefix nor the key has an ASCII letter.
    static func fieldName(_ key: String, prefix: String) -> String? {
        var name: [UInt8] = []
        var previous: UInt8 = 0
        for byte in (prefix + key).utf8 {
            // Skips UTF-8 continuation bytes, so that a character outside ASCII becomes one underscore.
            guard byte & 0b1100_0000 != 0b1000_0000 else { continue }
            let isUpper = isBetween(byte, "A", "Z")
            if isUpper, isBetween(previous, "a", "z") || isBetween(previous, "0", "9") {
                name.append(UInt8(ascii: "_"))
            }
            if isUpper || isBetween(byte, "0", "9") {
                name.append(byte)
            } else if isBetween(byte, "a", "z") {
                name.append(byte - 0x20)
            } else {
                name.append(UInt8(ascii: "_"))
            }
            previous = byte
        }
        let usable = name.drop { !isBetween($0, "A", "Z") }.prefix(64)
        guard !key.isEmpty, !usable.isEmpty else { return nil }
        return String(decoding: usable, as: UTF8.self)
    }

    private static func isBetween(_ byte: UInt8, _ low: Unicode.Scalar, _ high: Unicode.Scalar) -> Bool {
        byte >= UInt8(ascii: low) && byte <= UInt8(ascii: high)
    }

    /// Sends the entry to journald. Blocks while the socket of journald is full.
    ///
    /// - Returns: 0 if the entry was sent or journald has no socket; otherwise an error number (`errno(3)`)
    func send() -> CInt {
        bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return EINVAL }
            // sd_journal_sendv only reads the bytes, but iovec has no variant with a const pointer.
            let start = UnsafeMutableRawPointer(mutating: base)
            let vectors = ranges.map { iovec(iov_base: start + $0.lowerBound, iov_len: $0.count) }
            return -sd_journal_sendv(vectors, CInt(clamping: vectors.count))
        }
    }
}
