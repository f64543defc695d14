package import Glibc

// Dates and times of the Gregorian calendar in UTC, without leap seconds.

extension tm {
    /// The date and time of a number of seconds since 1970-01-01T00:00:00Z.
    package init(seconds: Int) {
        self.init()
        var seconds = seconds
        gmtime_r(&seconds, &self)
    }

    /// The text in a format of strftime(3), of at most 63 bytes.
    package func text(_ format: String) -> String {
        var parts = self
        let text = [UInt8](unsafeUninitializedCapacity: 64) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) { text in
                text.baseAddress.map { strftime($0, text.count, format, &parts) } ?? 0
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// A number of milliseconds since 1970-01-01T00:00:00Z as RFC 3339: `2026-11-21T10:15:00.250Z`.
    package static func text(milliseconds: Int) -> String {
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        let (seconds, fraction) = remainder < 0 ? (quotient - 1, remainder + 1000) : (quotient, remainder)
        return tm(seconds: seconds).text("%04Y-%m-%dT%H:%M:%S.") + String(1000 + fraction).dropFirst() + "Z"
    }

    /// The seconds from 1970-01-01T00:00:00Z to the beginning of a day; nil if the month has no such day.
    /// - Parameter month: from 1 to 12
    package static func seconds(year: Int, month: Int, day: Int) -> Int? {
        var date = tm()
        (date.tm_year, date.tm_mon, date.tm_mday) = (CInt(year - 1900), CInt(month - 1), CInt(day))
        let seconds = timegm(&date)
        return date.tm_mday == CInt(day) ? seconds : nil
    }
}

extension Duration {
    /// The duration in milliseconds, rounded up. Durations of more than 146 million years, in either direction, become
    /// `Int.max` or `Int.min`.
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds.magnitude < UInt64(Int.max / 2000) else { return seconds < 0 ? .min : .max }
        // Integer division rounds towards zero, so it already rounds a negative duration up.
        let roundedUp = attoseconds > 0 ? attoseconds + 999_999_999_999_999 : attoseconds
        return Int(seconds) * 1000 + Int(roundedUp / 1_000_000_000_000_000)
    }

    /// The duration in nanoseconds, rounded towards zero. Durations of more than 292 years, in either direction, become
    /// `Int64.max` or `Int64.min`.
    package var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carried) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        if overflow || carried { return seconds < 0 ? .min : .max }
        return sum
    }
}
