/// The result of one check of `larder doctor`.
struct Finding: Sendable, Equatable {
    /// The severity.
    enum Level: String, Sendable, CaseIterable {
        /// The check found no problem.
        case ok
        /// The checked part works, but needs attention.
        case warning
        /// The checked part does not work.
        case problem
        /// The check could not be performed.
        case skipped
    }

    /// The name of the check, in one word: `socket`.
    let check: String
    let level: Level
    /// The result, in one line.
    let title: String
    /// Explanations, one per line.
    var detail: [String] = []
    /// Instructions or commands for the user, one per line.
    var advice: [String] = []

    init(_ level: Level, _ check: String, _ title: String, detail: [String] = [], advice: [String] = []) {
        self.level = level
        self.check = check
        self.title = title
        self.detail = detail
        self.advice = advice
    }
}
