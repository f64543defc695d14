import Glibc
import LarderEncoding

/// A point in time: whole milliseconds since 1970-01-01T00:00:00Z, written as RFC 3339 in UTC
/// (`2026-11-21T10:15:00.250Z`).
package struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
    package let milliseconds: Int

    /// Creates a time from milliseconds since 1970-01-01T00:00:00Z.
    package init(milliseconds: Int) { self.milliseconds = milliseconds }

    /// Parses the format of ``description``; nil for any other text.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count == 24, bytes[4] == 0x2D, bytes[7] == 0x2D, bytes[10] == 0x54, bytes[13] == 0x3A,
            bytes[16] == 0x3A, bytes[19] == 0x2E, bytes[23] == 0x5A
        else { return nil }
        func digits(_ range: Range<Int>) -> Int? {
            var number = 0
            for byte in bytes[range] {
                guard byte >= 0x30, byte <= 0x39 else { return nil }
                number = number * 10 + Int(byte - 0x30)
            }
            return number
        }
        guard let year = digits(0..<4), let month = digits(5..<7), let day = digits(8..<10), let hour = digits(11..<13),
            let minute = digits(14..<16), let second = digits(17..<19), let fraction = digits(20..<23),
            (1...12).contains(month), hour < 24, minute < 60, second < 60,
            let midnight = tm.seconds(year: year, month: month, day: day)
        else { return nil }
        milliseconds = (midnight + hour * 3600 + minute * 60 + second) * 1000 + fraction
    }

    /// Whether `left` is earlier than `right`.
    package static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }

    /// The time in RFC 3339 format, in UTC with milliseconds.
    package var description: String { tm.text(milliseconds: milliseconds) }
}
