import LarderClientCore

/// The findings of `larder doctor`, for people and as JSON.
struct DoctorReport {
    let findings: [Finding]
    let isReachable: Bool

    /// The exit status: 5 if the agent did not reply, 1 if there is a problem, 12 if there is a warning, else 0.
    var status: ExitStatus {
        if !isReachable { return .unreachable }
        if count(.problem) > 0 { return .failure }
        return count(.warning) > 0 ? .warnings : .success
    }

    /// The report as text for people, without a final line end.
    /// - Parameter hasSymbols: whether the report may contain symbols outside ASCII.
    func text(style: Style, hasSymbols: Bool) -> String {
        let width = findings.map(\.check.count).max() ?? 0
        var lines: [String] = []
        for finding in findings {
            let mark = Self.mark(finding.level, style, hasSymbols)
            lines.append("\(mark) \(finding.check.padded(to: width))  \(finding.title.printable)")
            let indent = String(repeating: " ", count: Self.markWidth(hasSymbols) + width + 3)
            lines += finding.detail.map { indent + $0.printable }
            lines += finding.advice.map { "\(indent)\(hasSymbols ? "→" : "->") \($0.printable)" }
        }
        return lines.joined(separator: "\n") + "\n\n" + summary
    }

    /// The number of problems and warnings, in one line.
    private var summary: String {
        let problems = count(.problem), warnings = count(.warning)
        let parts = [
            problems > 0 ? Human.count(problems, "problem", "problems") : nil,
            warnings > 0 ? Human.count(warnings, "warning", "warnings") : nil,
        ].compactMap(\.self)
        if parts.isEmpty { return isReachable ? "No problems found." : "The agent is unreachable." }
        return parts.joined(separator: ", ") + (isReachable ? "." : "; the agent is unreachable.")
    }

    /// The worst finding in one line, and the number of others that need attention: `warning: shop has been stale for
    /// 2 h; 1 more`. Of several with the same severity, it is the first.
    var headline: String {
        let problems = findings.filter { $0.level == .problem } + findings.filter { $0.level == .warning }
        guard let worst = problems.first else { return "ok: no problems found" }
        let rest = problems.count > 1 ? "; \(problems.count - 1) more" : ""
        let detail = worst.detail.first.map { ": \($0)" } ?? ""
        return "\(worst.level.rawValue): \(worst.title)\(detail)\(rest)".printable
    }

    private func count(_ level: Finding.Level) -> Int { findings.count { $0.level == level } }

    private static func markWidth(_ hasSymbols: Bool) -> Int { hasSymbols ? 1 : 9 }

    private static func mark(_ level: Finding.Level, _ style: Style, _ hasSymbols: Bool) -> String {
        func text(_ symbol: String) -> String {
            (hasSymbols ? symbol : "[\(level.rawValue)]").padded(to: markWidth(hasSymbols))
        }
        return switch level {
        case .ok: style.good(text("✓"))
        case .warning: style.warning(text("!"))
        case .problem: style.problem(text("✗"))
        case .skipped: text("·")
        }
    }

    /// The report as one line of JSON.
    var json: String { (["reachable": .bool(isReachable), "findings": findingsJSON] as JSONValue).compactText }

    /// The report as a member of the JSON of `larder status --check`.
    var checkJSON: JSONValue { ["headline": .string(headline), "findings": findingsJSON] }

    private var findingsJSON: JSONValue {
        .array(
            findings.map { finding in
                [
                    "check": .string(finding.check), "level": .string(finding.level.rawValue),
                    "title": .string(finding.title), "detail": .array(finding.detail.map(JSONValue.string)),
                    "advice": .array(finding.advice.map(JSONValue.string)),
                ]
            })
    }

    /// Whether standard output is a terminal that displays UTF-8 according to the locale (locale(7)).
    static var hasSymbols: Bool {
        guard Output.isTerminal else { return false }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environmentVariable).first?.lowercased() ?? ""
        return locale.contains("utf-8") || locale.contains("utf8")
    }
}

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
