import LarderClientCore
import LarderPlatform

/// Formats numbers for people.
enum Human {
    /// A duration in its two largest units: `35 s`, `2 h 5 min`, `3 d 4 h`.
    static func span(milliseconds: Int) -> String {
        let seconds = max(0, milliseconds) / 1000
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60)
        if days > 0 { return hours > 0 ? "\(days) d \(hours) h" : "\(days) d" }
        if hours > 0 { return minutes > 0 ? "\(hours) h \(minutes) min" : "\(hours) h" }
        if minutes >= 10 || (minutes > 0 && seconds % 60 == 0) { return "\(minutes) min" }
        if minutes > 0 { return "\(minutes) min \(seconds % 60) s" }
        return "\(seconds) s"
    }

    /// An elapsed time: like ``span(milliseconds:)``, but with tenths below ten seconds.
    static func elapsed(milliseconds: Int) -> String {
        guard milliseconds < 10_000 else { return span(milliseconds: milliseconds) }
        return "\(max(0, milliseconds) / 1000).\(max(0, milliseconds) / 100 % 10) s"
    }

    /// A time in the past: `35 s ago`, `just now`.
    static func ago(milliseconds: Int) -> String {
        milliseconds < 1000 ? "just now" : "\(span(milliseconds: milliseconds)) ago"
    }

    /// A time in the future: `in 35 s`, `now`.
    static func ahead(milliseconds: Int) -> String {
        milliseconds < 1000 ? "now" : "in \(span(milliseconds: milliseconds))"
    }

    /// A size in bytes, with decimal prefixes: `412 B`, `1.2 kB`, `38 MB`.
    static func bytes(_ count: Int) -> String {
        guard count >= 1000 else { return "\(count) B" }
        var tenths = count / 100
        for unit in ["kB", "MB", "GB"] {
            if tenths < 100 { return "\(tenths / 10).\(tenths % 10) \(unit)" }
            if tenths < 10_000 { return "\(tenths / 10) \(unit)" }
            tenths /= 1000
        }
        return "\(tenths / 10).\(tenths % 10) TB"
    }

    /// A number and its noun: `1 failure`, `5 failures`.
    static func count(_ number: Int, _ singular: String, _ plural: String) -> String {
        "\(number) \(number == 1 ? singular : plural)"
    }
}

extension Timestamp {
    /// The current time. It is comparable with times of the agent, because the agent runs on the same host.
    static var now: Timestamp {
        Timestamp(milliseconds: WallClock.system.now)
    }
}
