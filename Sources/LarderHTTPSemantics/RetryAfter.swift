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
