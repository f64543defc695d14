import LarderEncoding
package import LarderJSON
import LarderProtocol

/// Checks of arguments that need no agent. Each error is thrown before anything is sent. It names the parameter of the
/// call, while an error of the agent names a member of the protocol.
package enum CallArguments {
    /// The range of a duration.
    package enum DurationRange {
        /// Zero is allowed: an age, or a time to wait.
        case upToTenYears
        /// A time to live.
        case positive
        /// The deadline of a download.
        case positiveUpToOneDay

        private static let tenYears = Duration.milliseconds(ConfigSet.Parameters.longestTTLMilliseconds)
        private static let oneDay = Duration.milliseconds(ImageGet.Parameters.longestDeadline)

        fileprivate func contains(_ duration: Duration) -> Bool {
            switch self {
            case .upToTenYears: duration >= .zero && duration <= Self.tenYears
            case .positive: duration > .zero && duration <= Self.tenYears
            case .positiveUpToOneDay: duration > .zero && duration <= Self.oneDay
            }
        }

        fileprivate var text: String {
            switch self {
            case .upToTenYears: "must not be negative or longer than 3660 days"
            case .positive: "must be positive and at most 3660 days"
            case .positiveUpToOneDay: "must be positive and at most one day"
            }
        }
    }

    /// The integers that JSON passes without a loss in every language, which are those of the protocol.
    static let integers = -((1 << 53) - 1)...((1 << 53) - 1)

    /// Checks a duration; nil is valid.
    /// - Parameter name: the name of the parameter.
    package static func check(
        _ duration: Duration?, _ name: String, _ range: DurationRange, advice: String? = nil
    ) throws(LarderClientError) {
        guard let duration, !range.contains(duration) else { return }
        throw LarderClientError(.invalidArgument, "\(name) \(range.text), not \(duration)", advice: advice)
    }

    /// Checks a number; nil is valid.
    /// - Parameter name: the name of the parameter.
    package static func check(
        _ number: Int?, _ name: String, in range: ClosedRange<Int>, advice: String? = nil
    ) throws(LarderClientError) {
        guard let number, !range.contains(number) else { return }
        let limits =
            range.upperBound == .max
            ? "at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
        throw LarderClientError(.invalidArgument, "\(name) must be \(limits), not \(number)", advice: advice)
    }

    /// Checks the maximum duration of a call; nil is valid.
    static func check(timeout: Duration?, of method: String) throws(LarderClientError) {
        guard let timeout, timeout <= .zero else { return }
        throw LarderClientError(
            .invalidArgument, "the timeout of \(method) must be positive, not \(timeout)",
            advice: "correct the timeout of the call or of LarderClient.Configuration; nil there means no limit")
    }

    /// Checks the number of a revision.
    /// - Parameter name: the name of the parameter.
    package static func check(revision: Int?, _ name: String = "revision") throws(LarderClientError) {
        guard let revision, revision < 0 else { return }
        throw LarderClientError(
            .invalidArgument, "\(name) must not be negative, as \(revision) is",
            advice: "pass the revision of a snapshot or of history(limit:)")
    }

    /// Checks the length of the reason for a change; nil is valid.
    static func check(reason: String?) throws(LarderClientError) {
        guard let count = reason?.unicodeScalars.count, count > maxReasonLength else { return }
        throw LarderClientError(
            .invalidArgument, "the reason has \(count) characters, and may have at most \(maxReasonLength)",
            advice: "shorten it")
    }

    /// Checks that a value has no infinity or NaN.
    /// - Parameter path: the path at which the value is set or compared.
    package static func check(_ value: JSONValue, at path: JSONPath) throws(LarderClientError) {
        guard let inner = value.notFinitePath else { return }
        let place = JSONPath(path.segments + inner.segments)
        let subject = place.isRoot ? "the value" : "the value for \"\(place)\""
        throw LarderClientError(
            .invalidArgument, "\(subject) is an infinity or NaN, which is not a JSON number",
            advice: "pass a finite number, or .null for no value")
    }

    /// Checks the arguments of a change that sets a value.
    /// - Returns: the time to live in milliseconds; nil for none
    static func check(_ value: JSONValue, at path: JSONPath, ttl: Duration?) throws(LarderClientError) -> Int? {
        if path.isRoot { throw emptyPath("replaceAll(with:ttl:) sets the whole document") }
        try check(value, at: path)
        return try milliseconds(ttl: ttl)
    }

    /// Checks a time to live.
    /// - Returns: its milliseconds, rounded up; nil for none
    package static func milliseconds(ttl: Duration?) throws(LarderClientError) -> Int? {
        try check(
            ttl, "ttl", .positive,
            advice: "pass nil for an override that does not expire, or remove the override with unset")
        return ttl?.milliseconds
    }

    static func emptyPath(_ alternative: String) -> LarderClientError {
        LarderClientError(
            .invalidArgument, "the path of a change is empty", advice: "name an object member; \(alternative)")
    }
}
