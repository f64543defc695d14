import Glibc
import LarderEncoding

/// A point in time with the resolution of HTTP (RFC 9110, section 5.6.7): whole seconds, always UTC.
package struct HTTPDate: Sendable, Hashable, Comparable {
    /// Seconds since 1970-01-01T00:00:00Z; negative for earlier times.
    package let secondsSinceEpoch: Int64

    package init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    package static func < (left: HTTPDate, right: HTTPDate) -> Bool {
        left.secondsSinceEpoch < right.secondsSinceEpoch
    }

    /// Parses IMF-fixdate (`Sun, 06 Nov 1994 08:49:37 GMT`) or one of the two obsolete formats (RFC 850 and `asctime`).
    ///
    /// Spaces and numbers of digits must match the grammar exactly, and the day must exist in its month. Day names,
    /// month names and `GMT` are case-insensitive (RFC 9111, section 4.2). The day of the week is not compared with the
    /// date.
    ///
    /// - Parameters:
    ///   - text: the value of the field
    ///   - now: determines the century of a two-digit year: a year that would be more than 50 years in the future is
    ///     taken from the previous century
    package init?(parsing text: String, now: HTTPDate) {
        var form = DateScanner(text)
        let dayName = form.letters()
        let date: (year: Int, month: Int, day: Int)
        let time: Int
        if DateScanner.days.contains(dayName), form.skip(", ") {
            // IMF-fixdate
            guard let day = form.number(2), form.skip(" "), let month = form.month(), form.skip(" "),
                let year = form.number(4), form.skip(" "), let clock = form.time(), form.skip(" "),
                form.letters() == "gmt"
            else { return nil }
            (date, time) = ((year, month, day), clock)
        } else if DateScanner.longDays.contains(dayName), form.skip(", ") {
            // RFC 850
            guard let day = form.number(2), form.skip("-"), let month = form.month(), form.skip("-"),
                let short = form.number(2), form.skip(" "), let clock = form.time(), form.skip(" "),
                form.letters() == "gmt"
            else { return nil }
            let thisYear = Self.civilYear(now.secondsSinceEpoch)
            var year = thisYear - thisYear % 100 + short
            if year > thisYear + 50 { year -= 100 }
            (date, time) = ((year, month, day), clock)
        } else if DateScanner.days.contains(dayName), form.skip(" ") {
            // asctime
            guard let month = form.month(), form.skip(" "),
                let day = form.skip(" ") ? form.number(1) : form.number(2), form.skip(" "),
                let clock = form.time(), form.skip(" "), let year = form.number(4)
            else { return nil }
            (date, time) = ((year, month, day), clock)
        } else {
            return nil
        }
        guard form.isAtEnd, let midnight = tm.seconds(year: date.year, month: date.month, day: date.day) else {
            return nil
        }
        secondsSinceEpoch = Int64(midnight + time)
    }

    /// The approximate year of a point in time; determines the century of a two-digit year.
    private static func civilYear(_ seconds: Int64) -> Int { Int(1970 + seconds / 31_556_952) }
}

/// Reads the parts of a date from left to right. Each method returns nil or false if the next characters do not match.
private struct DateScanner {
    static let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    static let longDays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    private var rest: Substring.UTF8View

    init(_ text: String) { rest = text[...].utf8 }

    var isAtEnd: Bool { rest.isEmpty }

    /// Reads letters up to the first other character, and returns them in lower case.
    mutating func letters() -> String {
        let word = rest.prefix { (0x41...0x5A).contains($0 & 0xDF) && $0 < 0x80 }
        rest = rest.dropFirst(word.count)
        return String(decoding: word.map { $0 | 0x20 }, as: UTF8.self)
    }

    mutating func skip(_ text: StaticString) -> Bool {
        let expected = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        guard rest.starts(with: expected) else { return false }
        rest = rest.dropFirst(expected.count)
        return true
    }

    /// Reads exactly `digits` digits.
    mutating func number(_ digits: Int) -> Int? {
        let text = rest.prefix(digits)
        guard text.count == digits, text.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        rest = rest.dropFirst(digits)
        return text.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// Reads the name of a month and returns 1 to 12.
    mutating func month() -> Int? {
        Self.months.firstIndex(of: letters()).map { $0 + 1 }
    }

    /// Reads a time of day and returns its seconds since midnight. The grammar allows a leap second (60).
    mutating func time() -> Int? {
        guard let hour = number(2), skip(":"), let minute = number(2), skip(":"), let second = number(2),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        return hour * 3_600 + minute * 60 + second
    }
}

/// Parser for `Retry-After` (RFC 9110, section 10.2.3), which is a number of seconds or a date.
package enum RetryAfter {
    /// The maximum that ``duration(_:date:now:)`` returns: 30 days. Larger values are mistakes or attacks. Callers
    /// apply their own, lower limits.
    package static let maxDelay = Duration.seconds(30 * 86_400)

    /// Parses the field.
    ///
    /// - Parameters:
    ///   - text: the value of the field
    ///   - date: the response's `Date` field, if it has one. A date in `Retry-After` is compared with it instead of
    ///     with `now`, so that a wrong clock at the origin does not matter
    ///   - now: the current time
    /// - Returns: the time to wait, between zero and ``maxDelay``; nil if the field is neither a number nor a date
    package static func duration(_ text: String, date: HTTPDate?, now: HTTPDate) -> Duration? {
        let text = text.drop(while: { $0 == " " })
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            guard let seconds = Int64(text) else { return maxDelay }
            return min(.seconds(seconds), maxDelay)
        }
        guard let until = HTTPDate(parsing: String(text), now: now) else { return nil }
        let seconds = until.secondsSinceEpoch - (date ?? now).secondsSinceEpoch
        return min(max(.zero, .seconds(seconds)), maxDelay)
    }
}
