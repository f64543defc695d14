/// A point in time: whole milliseconds since 1970-01-01T00:00:00Z, written as RFC 3339 in UTC
/// (`2026-11-21T10:15:00.250Z`).
public struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
    public let milliseconds: Int

    /// Creates a time from milliseconds since 1970-01-01T00:00:00Z.
    public init(milliseconds: Int) { self.milliseconds = milliseconds }

    /// Parses the format of ``description``; nil for any other text.
    public init?(_ text: String) {
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
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second < 60
        else { return nil }
        let seconds = Self.days(year: year, month: month, day: day) * 86_400 + hour * 3600 + minute * 60 + second
        milliseconds = seconds * 1000 + fraction
    }

    /// Whether `left` is earlier than `right`.
    public static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }

    /// The time in RFC 3339 format, in UTC with milliseconds.
    public var description: String {
        let (day, rest) = milliseconds.flooredDivision(by: 86_400_000)
        let date = Self.date(days: day)
        func padded(_ number: Int, _ width: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
            + "T\(padded(rest / 3_600_000, 2)):\(padded(rest / 60_000 % 60, 2)):\(padded(rest / 1000 % 60, 2))"
            + ".\(padded(rest % 1000, 3))Z"
    }

    /// The number of days from 1970-01-01 to a date in the proleptic Gregorian calendar. The computation lets years
    /// start on 1 March, so that the leap day is the last day of a year, and counts in eras of 400 years, which have
    /// 146,097 days.
    private static func days(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = marchYear.flooredDivision(by: 400)
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func date(days: Int) -> (year: Int, month: Int, day: Int) {
        let (era, dayOfEra) = (days + 719_468).flooredDivision(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}

extension Int {
    fileprivate func flooredDivision(by divisor: Int) -> (quotient: Int, remainder: Int) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
