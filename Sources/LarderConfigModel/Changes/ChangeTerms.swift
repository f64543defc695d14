package import LarderJSON

/// The condition of a requested change, and the reason for it.
package struct ChangeTerms: Sendable {
    /// The condition that must hold for the change to be made. Otherwise the change is rejected with `conflict`. Nil to
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
