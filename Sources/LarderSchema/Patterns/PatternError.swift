/// The error of a regular expression that is invalid or not supported.
struct PatternError: Error, Equatable, Sendable {
    /// The message for users, with the position in the pattern if it is known.
    var reason: String

    init(_ reason: String) { self.reason = reason }

    /// - Parameter offset: the position in the pattern, in code points from 0
    init(_ reason: String, at offset: Int) { self.reason = "\(reason), at character \(offset + 1)" }
}
