import LarderEncoding
package import LarderJSON

/// The condition of a requested change, and the reason for it.
package struct ChangeTerms: Sendable {
    /// The condition that must hold for the change to be made. Otherwise the change is refused with `conflict`. Nil to
    /// make the change in any state.
    package var condition: ChangeCondition?
    /// The reason for the history and the log; nil if the client gave none.
    package var reason: String?

    package init(condition: ChangeCondition? = nil, reason: String? = nil) {
        self.condition = condition
        self.reason = reason
    }

    /// Whether there is neither a condition nor a reason.
    package var isEmpty: Bool { condition == nil && reason == nil }
}

/// A condition on the state that a change is applied to. That state includes the earlier changes of the same batch.
package struct ChangeCondition: Sendable {
    /// A comparison of the resolved value at a path.
    package struct Comparison: Sendable {
        package let path: [String]
        /// The expected value; nil if there must be no value at the path.
        package let expected: JSONValue?

        package init(path: [String], expected: JSONValue?) {
            self.path = path
            self.expected = expected
        }
    }

    /// The expected revision; nil for any.
    package var revision: Int?
    /// The epoch of ``revision``; nil for any.
    package var epoch: String?
    /// The comparisons, all of which must succeed.
    package var comparisons: [Comparison]

    package init(revision: Int? = nil, epoch: String? = nil, comparisons: [Comparison] = []) {
        self.revision = revision
        self.epoch = epoch
        self.comparisons = comparisons
    }
}

/// How an increment changes a number.
package struct CounterStep: Sendable, Equatable {
    /// The integers that every JSON reader represents exactly: ±(2⁵³ − 1).
    package static let exactIntegers = -((1 << 53) - 1)...((1 << 53) - 1)

    /// The number to add, one of ``exactIntegers``.
    package var by: Int
    /// The bounds of the sum; nil for no bound. An increment whose sum is outside them is refused with `conflict`.
    package var minimum: Int?
    package var maximum: Int?

    package init(by: Int, minimum: Int? = nil, maximum: Int? = nil) {
        self.by = by
        self.minimum = minimum
        self.maximum = maximum
    }

    /// Adds ``by`` to the value at a path.
    /// - Parameter old: the value; nil for none, which counts as 0
    /// - Throws: `invalidChange` if the value or the sum is not one of ``exactIntegers``; `conflict` if the sum is
    ///   outside the bounds.
    func sum(with old: JSONValue?, at path: [String]) throws(ConfigError) -> Int {
        guard let number = old.map({ $0.int }) ?? 0, Self.exactIntegers.contains(number) else {
            throw ConfigError(
                .invalidChange,
                "the value at \"\(JSONPath(path).description.excerpt)\" is not an integer from -(2^53-1) to 2^53-1; "
                    + "set it to such an integer")
        }
        let sum = number + by
        if let minimum, sum < minimum {
            throw ConfigError(
                conflictAt: path, "the sum would be less than the minimum, \(minimum); nothing was changed")
        }
        if let maximum, sum > maximum {
            throw ConfigError(
                conflictAt: path, "the sum would be greater than the maximum, \(maximum); nothing was changed")
        }
        guard Self.exactIntegers.contains(sum) else {
            throw ConfigError(
                .invalidChange, "the sum would not be an integer from -(2^53-1) to 2^53-1; nothing was changed")
        }
        return sum
    }
}
