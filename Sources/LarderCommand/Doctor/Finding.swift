/// What `larder doctor` has to say about one thing that it looked at.
struct Finding: Sendable, Equatable {
    /// How much it matters.
    enum Level: String, Sendable, CaseIterable {
        /// It is as it should be.
        case ok
        /// It works, but somebody should look at it.
        case warning
        /// It does not work.
        case problem
        /// It could not be looked at.
        case skipped
    }

    /// What was looked at, in one word: `socket`.
    let check: String
    let level: Level
    /// What there is to say, in one line.
    let title: String
    /// What explains it, line by line.
    var detail: [String] = []
    /// What to do or type next, each in one line.
    var advice: [String] = []

    init(_ level: Level, _ check: String, _ title: String, detail: [String] = [], advice: [String] = []) {
        self.level = level
        self.check = check
        self.title = title
        self.detail = detail
        self.advice = advice
    }
}
