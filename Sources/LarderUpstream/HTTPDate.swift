import Glibc

/// A point in time as HTTP writes it (RFC 9110, section 5.6.7): whole seconds, always UTC.
public struct HTTPDate: Sendable, Hashable, Comparable {
    /// Seconds since 1970-01-01T00:00:00Z.
    public let secondsSinceEpoch: Int64

    /// Makes a date from seconds since 1970.
    public init(secondsSinceEpoch: Int64) { self.secondsSinceEpoch = secondsSinceEpoch }

    /// Whether one date is before another.
    public static func < (left: HTTPDate, right: HTTPDate) -> Bool {
        left.secondsSinceEpoch < right.secondsSinceEpoch
    }

    /// Reads the preferred form (`Sun, 06 Nov 1994 08:49:37 GMT`) and the two obsolete ones (RFC 850 and `asctime`).
    ///
    /// - Parameters:
    ///   - text: the field's value
    ///   - now: decides the century of a two-digit year; more than 50 years ahead means the past
    public init?(parsing text: String, now: HTTPDate) {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," })
        switch words.count {
        case 6:  // Sun, 06 Nov 1994 08:49:37 GMT
            guard words[5] == "GMT", words[3].utf8.count == 4 else { return nil }
            self.init(year: Self.number(words[3]), month: words[2], day: words[1], time: words[4])
        case 4:  // Sunday, 06-Nov-94 08:49:37 GMT
            let date = words[1].split(separator: "-", omittingEmptySubsequences: false)
            guard words[3] == "GMT", date.count == 3, date[2].utf8.count == 2, let short = Self.number(date[2])
            else { return nil }
            let thisYear = Self.civilYear(now.secondsSinceEpoch)
            var year = thisYear - thisYear % 100 + short
            if year > thisYear + 50 { year -= 100 }
            self.init(year: year, month: date[1], day: date[0], time: words[2])
        case 5:  // Sun Nov  6 08:49:37 1994
            guard words[4].utf8.count == 4 else { return nil }
            self.init(year: Self.number(words[4]), month: words[1], day: words[2], time: words[3])
        default:
            return nil
        }
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private init?(year: Int64?, month: Substring, day: Substring, time: Substring) {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false)
        guard let year, let month = Self.months.firstIndex(of: String(month)), let day = Self.number(day),
            clock.count == 3, let hour = Self.number(clock[0]), let minute = Self.number(clock[1]),
            let second = Self.number(clock[2]), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60  // a leap second is allowed by the grammar
        else { return nil }
        let days = Self.daysSinceEpoch(year: year, month: Int64(month + 1), day: day)
        secondsSinceEpoch = days * 86_400 + hour * 3_600 + minute * 60 + second
    }

    /// One to four decimal digits and nothing else.
    private static func number(_ text: Substring) -> Int64? {
        let isShort = (1...4).contains(text.utf8.count)
        return isShort && text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(text) : nil
    }

    /// Days from the epoch to a date of the proleptic Gregorian calendar. March is taken as the first month, so that
    /// the leap day is the last of its year.
    private static func daysSinceEpoch(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// The year of a point in time, near enough to tell centuries apart.
    private static func civilYear(_ seconds: Int64) -> Int64 { 1970 + seconds / 31_556_952 }
}

extension HTTPDate {
    /// The time of day, for comparison with dates from outside.
    public static func now() -> HTTPDate {
        var time = timespec()
        // Cannot fail: the clock exists on every Linux and the address is ours (clock_gettime(2)).
        clock_gettime(CLOCK_REALTIME, &time)
        return HTTPDate(secondsSinceEpoch: Int64(time.tv_sec))
    }
}
