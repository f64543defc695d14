import ArgumentParser
import LarderEncoding

/// A duration on the command line: `500ms`, `90` (seconds), `90s`, `10m`, `2h`, `1d`, `1h30m`.
struct TimeSpan: Equatable, CustomStringConvertible {
    let duration: Duration

    /// The maximum duration in the protocol, 3660 days.
    private static let maxMilliseconds = 3660 * 86_400_000

    /// Parses the value of an option.
    /// - Throws: `ValidationError` with the valid formats.
    static func parse(_ text: String) throws -> TimeSpan {
        guard let span = TimeSpan(argument: text) else {
            throw ValidationError(
                "write a time greater than 0 and at most 3660 days, such as 500ms, 90s, 10m, 1h30m or 7d")
        }
        return span
    }

    private static let units: [(name: String, milliseconds: Int)] = [
        ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    init?(argument: String) {
        var rest = (Int(argument).map { "\($0)s" } ?? argument)[...]
        var total = 0
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(digits.count)
            let unit = rest.prefix { $0.isLetter }
            rest = rest.dropFirst(unit.count)
            guard let number = Int(digits), let scale = Self.units.first(where: { $0.name == unit })?.milliseconds
            else { return nil }
            let (part, partOverflow) = number.multipliedReportingOverflow(by: scale)
            let (sum, sumOverflow) = total.addingReportingOverflow(part)
            guard !partOverflow, !sumOverflow else { return nil }
            total = sum
        }
        guard total > 0, total <= Self.maxMilliseconds else { return nil }
        duration = .milliseconds(total)
    }

    init(_ duration: Duration) { self.duration = duration }

    var milliseconds: Int { duration.milliseconds }

    /// The duration in seconds.
    var seconds: Double { Double(milliseconds) / 1000 }

    var description: String {
        milliseconds % 1000 == 0 ? "\(duration.components.seconds)s" : "\(milliseconds)ms"
    }
}
