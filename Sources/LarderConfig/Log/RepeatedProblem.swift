/// A problem that may come up again and again: told when it begins, when it becomes another one, and once a minute.
struct RepeatedProblem: Sendable {
    private static let pause = 60_000
    private var told: String?
    private var toldAt = 0
    private var untold = 0

    /// Takes note of it.
    /// - Parameters:
    ///   - kind: what makes it the same problem
    ///   - now: in milliseconds since 1970
    /// - Returns: how often it came up since it was told last; nil where it is not to be told now.
    mutating func occurred(_ kind: String, now: Int) -> Int? {
        // The time of day may have been set back.
        if told == kind, now - toldAt < Self.pause, now >= toldAt {
            untold += 1
            return nil
        }
        defer { untold = 0 }
        (told, toldAt) = (kind, now)
        return untold
    }

    /// Takes note of its end.
    mutating func ended() { (told, untold) = (nil, 0) }
}
