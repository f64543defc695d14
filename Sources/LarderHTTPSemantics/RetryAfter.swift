/// `Retry-After` (RFC 9110, section 10.2.3): a number of seconds or a date.
package enum RetryAfter {
    /// No origin means more than this; a larger number is a mistake or a trap, and callers put their own cap below it.
    package static let longest = Duration.seconds(30 * 86_400)

    /// Reads the field.
    ///
    /// - Parameters:
    ///   - text: the field's value
    ///   - date: the answer's `Date` field; with it an origin whose clock is wrong still means what it says
    ///   - now: the time of day here
    /// - Returns: zero or more, or nothing if the field is neither a number nor a date
    package static func duration(_ text: String, date: HTTPDate?, now: HTTPDate) -> Duration? {
        let text = text.drop(while: { $0 == " " })
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            guard let seconds = Int64(text) else { return longest }
            return min(.seconds(seconds), longest)
        }
        guard let until = HTTPDate(parsing: String(text), now: now) else { return nil }
        let seconds = until.secondsSinceEpoch - (date ?? now).secondsSinceEpoch
        return min(max(.zero, .seconds(seconds)), longest)
    }
}
