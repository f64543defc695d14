import Glibc
import LarderClientCore
import LarderFlagRules
import LarderJSON
import Synchronization

/// The compiled flags of one namespace of a client.
///
/// The client owns the store. A background task loads each snapshot that the agent announces; it retains the client only
/// during a request.
final class FlagStore: Sendable {
    /// The flags of one snapshot.
    final class Compiled: Sendable {
        let revision: Int
        private let set: FlagSet

        init(_ snapshot: MappedSnapshot, member: String) throws(LarderClientError) {
            revision = snapshot.revision
            // The other members may be large.
            let names = member.isEmpty ? [] : [member, "$evaluators"]
            let members = try names.map { (name) throws(LarderClientError) in
                (name, try snapshot.value(at: JSONPath([name])) ?? .null)
            }
            set = FlagSet(in: names.isEmpty ? try snapshot.value() ?? .null : .object(members), member: member)
        }

        func outcome<Value: FlagValue>(_ flag: String, _ type: Value.Type, _ context: JSONValue) -> FlagOutcome {
            set.evaluate(
                flag, type: FlagValueType(rawValue: Value.flagType), context: FlagContext(context),
                now: Int64(time(nil)))
        }

        /// Whether the outcome of a flag may change with time.
        func usesTime(_ flag: String) -> Bool { set[flag]?.usesTime ?? false }
    }

    private struct State {
        var compiled: Compiled?
        /// The error of the last request; nil if it has succeeded.
        var problem: LarderClientError?
        var isFollowing = false
        /// Whether no further snapshot can arrive.
        var hasEnded = false
        var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastID = 0
    }

    let namespace: String
    let member: String
    /// Evaluations on any thread, and the task that loads snapshots, share it.
    private let state = Mutex(State())

    init(_ namespace: String, _ member: String) { (self.namespace, self.member) = (namespace, member) }

    var problem: LarderClientError? { state.withLock { $0.problem } }

    /// The number of streams that wait for changes.
    var listenerCount: Int { state.withLock { $0.listeners.count } }

    /// Returns the newest flags; nil before the first snapshot. The first call starts to follow the namespace.
    func compiled(following client: LarderClient) -> Compiled? {
        let (compiled, isFirst) = state.withLock { state in
            defer { state.isFollowing = true }
            return (state.compiled, !state.isFollowing)
        }
        if isFirst { follow(client) }
        return compiled
    }

    /// Returns a stream with an element after one or more changes of the flags, and the continuation to wake or end its
    /// consumer. The stream ends when no further snapshot can arrive.
    func changes() -> (AsyncStream<Void>, AsyncStream<Void>.Continuation) {
        let (changes, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.lastID += 1
            if !state.hasEnded { state.listeners[state.lastID] = continuation }
            return state.hasEnded ? nil : state.lastID
        }
        if let id {
            continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[id] = nil } }
        } else {
            continuation.finish()
        }
        return (changes, continuation)
    }

    /// Loads the current snapshot, after retries if necessary, and then each newer one.
    private func follow(_ client: LarderClient) {
        let (clock, backoff) = (client.configuration.clock, client.configuration.backoff)
        Task { [weak client] in
            var failures = 0
            while await self.load(client) == false {
                try? await clock.sleep(for: backoff.delay(beforeAttempt: failures))
                failures += 1
            }
        }
    }

    /// Loads the current snapshot.
    /// - Returns: whether there is nothing more to do: the snapshot is loaded, or a retry cannot succeed.
    private func load(_ client: LarderClient?) async -> Bool {
        guard let client else { return true }
        do throws(LarderClientError) {
            let snapshot = try await snapshot(client)
            let compiled = try Compiled(snapshot, member: member)
            publish { state in (state.compiled, state.problem) = (compiled, nil) }
            snapshot.whenOutdated { [weak self, weak client] in
                if let self, let client { self.follow(client) }
            }
            return true
        } catch {
            // Everything else may be different later: the agent, its settings and its limits.
            let isFinal = error.code == .closed || error.code == .invalidArgument
            publish { state in (state.problem, state.hasEnded) = (error, isFinal) }
            return isFinal
        }
    }

    private func snapshot(_ client: LarderClient) async throws(LarderClientError) -> MappedSnapshot {
        do throws(LarderClientError) {
            return try await client.config[namespace].mappedSnapshot()
        } catch {
            // The socket cannot pass files, or the client reads a file instead of an agent.
            guard error.code == .protocolViolation || error.code == .unsupported else { throw error }
            return try await client.config[namespace].mappedSnapshot(sharesMemory: false)
        }
    }

    /// Changes the state and wakes all listeners.
    private func publish(_ change: (inout State) -> Void) {
        let (listeners, hasEnded) = state.withLock { state in
            change(&state)
            return (Array(state.listeners.values), state.hasEnded)
        }
        // Outside of the lock, because the end of a stream removes its listener.
        for listener in listeners {
            if hasEnded { listener.finish() } else { listener.yield() }
        }
    }
}
