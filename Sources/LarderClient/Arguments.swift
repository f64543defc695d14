import LarderJSON

// What programs hand over, in the protocol's terms.

extension JSONPath {
    /// Reads a path that a program gave.
    init(argument: String) throws(LarderClientError) {
        do {
            try self.init(parsing: argument)
        } catch {
            throw LarderClientError(
                .invalidArgument, "\"\(argument)\" is no path: \(error.reason)",
                advice: "write search.limit, or /search/limit as a JSON Pointer")
        }
    }
}

extension Duration {
    /// Whole milliseconds, rounded up so that no time becomes none; what no integer can hold is the largest.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        guard seconds.magnitude < UInt64(Int.max / 2000) else { return seconds < 0 ? .min : .max }
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// Whole seconds, rounded down; what no integer can hold is the largest.
    var wholeSeconds: Int { Int(clamping: components.seconds) }

    /// Seconds with their fraction.
    var seconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
