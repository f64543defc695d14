extension FormatReader {
    /// RFC 3339: full-date.
    mutating func date() -> Bool {
        guard let year = number(digits: 4), skip("-"), let month = number(digits: 2), skip("-"),
            let day = number(digits: 2), (1...12).contains(month)
        else { return false }
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let days = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        return (1...days[month - 1]).contains(day)
    }

    /// RFC 3339: full-time. The second 60 is valid only as a leap second, at 23:59 UTC.
    mutating func time() -> Bool {
        guard let hour = number(digits: 2), skip(":"), let minute = number(digits: 2), skip(":"),
            let second = number(digits: 2), hour < 24, minute < 60, second <= 60
        else { return false }
        if skip("."), skip(while: Self.isDigit) == 0 { return false }
        var offset = 0
        if !skip(letter: "z") {
            let isWest = next == UInt8(ascii: "-")
            guard skip("+") || skip("-"), let hours = number(digits: 2), skip(":"), let minutes = number(digits: 2),
                hours < 24, minutes < 60
            else { return false }
            offset = (hours * 60 + minutes) * (isWest ? -1 : 1)
        }
        let day = 24 * 60
        return second < 60 || (hour * 60 + minute - offset + 2 * day) % day == day - 1
    }

    /// RFC 3339: date-time.
    mutating func dateTime() -> Bool { date() && skip(letter: "t") && time() }

    /// RFC 3339, appendix A: duration. Each unit may only be followed by the next smaller one.
    mutating func duration() -> Bool {
        guard skip("P") else { return false }
        if next != UInt8(ascii: "T") {
            guard let unit = units("YMDW") else { return false }
            if unit == UInt8(ascii: "W") || isAtEnd { return true }
        }
        return skip("T") && units("HMS") != nil
    }

    /// Reads one or more numbers, each followed by a unit. The units must be consecutive in `order`, but `W` (weeks)
    /// must be the only unit. Returns the last unit; nil if the text is invalid.
    private mutating func units(_ order: StaticString) -> UInt8? {
        let order = UnsafeBufferPointer(start: order.utf8Start, count: order.utf8CodeUnitCount)
        var position: Int?
        var last: UInt8?
        while let digit = next, Self.isDigit(digit) {
            _ = skip(while: Self.isDigit)
            guard let unit = next, let found = order.firstIndex(of: unit) else { return nil }
            if let position, found != position + 1 || unit == UInt8(ascii: "W") { return nil }
            index += 1
            position = found
            last = unit
        }
        return last
    }
}
