/// Why a request is a hit or not: each rule that was looked at, with its numbers, in order.
public struct Explanation: Sendable, Hashable {
    /// One rule.
    public struct Rule: Sendable, Hashable {
        /// Which rule: a short, stable word.
        public let name: String
        /// What it came to, for people.
        public let text: String
    }

    /// The rules, in the order that they were looked at.
    public private(set) var rules: [Rule] = []

    /// Makes an empty one.
    public init() {}

    fileprivate mutating func add(_ name: String, _ text: String) { rules.append(Rule(name: name, text: text)) }
}

extension Explanation? {
    /// Adds a rule. Where nobody wants an explanation no text is made.
    mutating func note(_ name: String, _ text: @autoclosure () -> String) {
        guard self != nil else { return }
        self?.add(name, text())
    }
}
