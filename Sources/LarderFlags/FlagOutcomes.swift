import LarderClientCore
import LarderFlagRules
import LarderJSON

/// A stream of a flag's outcomes for one context; see ``FlagClient/outcomes(_:default:context:)``.
///
/// ```swift
/// import LarderFlags
///
/// for await limit in client.flags.outcomes("result-limit", default: 10) {
///     await server.setLimit(limit.value)
/// }
/// ```
public struct FlagOutcomes<Value: FlagValue>: AsyncSequence, Sendable {
    /// An outcome.
    public typealias Element = FlagDetails<Value>
    /// The stream does not throw.
    public typealias Failure = Never

    let flags: FlagClient
    let flag: String
    let defaultValue: Value
    let context: JSONValue

    /// Starts an iteration.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// An iteration over the outcomes.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let outcomes: FlagOutcomes
        private var changes: AsyncStream<Void>.AsyncIterator
        private let wake: AsyncStream<Void>.Continuation
        /// The last outcome, which is nil before the first snapshot; nil before the first evaluation.
        private var last: FlagOutcome??
        private var usesTime = false

        init(_ outcomes: FlagOutcomes) {
            self.outcomes = outcomes
            let (changes, wake) = outcomes.flags.store.changes()
            (self.changes, self.wake) = (changes.makeAsyncIterator(), wake)
        }

        /// Waits for the next outcome. Returns nil once the task is cancelled or the client is closed.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> FlagDetails<Value>? {
            let (flags, flag) = (outcomes.flags, outcomes.flag)
            while !Task.isCancelled {
                if last != nil, !(await change(isolation: actor)) { return nil }
                let compiled = flags.store.compiled(following: flags.client)
                let outcome = compiled?.outcome(flag, Value.self, outcomes.context)
                usesTime = compiled?.usesTime(flag) ?? false
                if let last, isSame(last, outcome) { continue }
                last = .some(outcome)
                return FlagDetails(flag, default: outcomes.defaultValue, outcome, compiled?.revision)
            }
            return nil
        }

        /// Waits until the flag must be evaluated again. Returns false at the end of the stream.
        private mutating func change(isolation actor: isolated (any Actor)?) async -> Bool {
            let timer: Task<Void, Never>? =
                if usesTime {
                    Task { [clock = outcomes.flags.client.configuration.clock, wake] in
                        if (try? await clock.sleep(for: .seconds(60))) != nil { wake.yield() }
                    }
                } else {
                    nil
                }
            defer { timer?.cancel() }
            return await changes.next(isolation: actor) != nil
        }

        private func isSame(_ old: FlagOutcome?, _ new: FlagOutcome?) -> Bool {
            guard let old, let new else { return old == nil && new == nil }
            return old.isEquivalent(to: new)
        }
    }
}
