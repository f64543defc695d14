import LarderConfigModel
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON
import LarderUpstream
import Logging
import Synchronization

/// A source that reads keys from etcd, and watches them while ``documents(after:ifChangedFrom:)`` has a consumer.
final class EtcdSource: ConfigSource {
    struct State {
        var follower: EtcdFollower
        /// The document that was built last, from which the next one may be derived; nil before the first one.
        var rendering: EtcdRendering?
        /// The random numbers for delays.
        var generator: any RandomNumberGenerator & Sendable
        /// Makes the consumer ask for the newest document or failure; nil without a consumer.
        var signal: AsyncStream<Void>.Continuation?
        /// Wakes the task that checks whether the current step has been replaced and whether its watch is suspected to
        /// be dead.
        var attention: AsyncStream<Void>.Continuation?
    }

    private let client: EtcdClient
    private let document: EtcdDocument
    private let timeout: Duration
    private let clock: any Clock<Duration>
    private let logger: Logger
    /// The watch, the consumer and fetches, each a task of its own, share it, and the status reads it synchronously.
    let state: Mutex<State>

    let location: String
    let identity: String
    var reconnects: Bool { true }

    init(
        _ configuration: EtcdSourceSettings, client: EtcdClient, plan: ReconnectPlan,
        clock: any Clock<Duration>, generator: any RandomNumberGenerator & Sendable, logger: Logger
    ) {
        self.client = client
        self.clock = clock
        self.logger = logger
        timeout = configuration.timeout
        location = configuration.location
        identity = configuration.identity
        document = EtcdDocument(
            keys: configuration.keys, format: configuration.format, maximumBytes: configuration.maximumBytes)
        state = Mutex(
            State(
                follower: EtcdFollower(
                    maximumBytes: configuration.maximumBytes, plan: plan,
                    readsAfterEvents: EtcdKeys.ranges(of: configuration.keys).count > 1),
                generator: generator))
    }

    // MARK: Fetches

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        do throws(EtcdError) {
            try await read()
        } catch {
            throw error.configError
        }
        return try await answer(validator, mayBeEmpty: reason == .forced)
    }

    /// Returns the failure of the watch or of the last read, or the known document.
    private func delivery(ifChangedFrom validator: Validator?) async -> SourceDelivery {
        if let failure = state.withLock({ $0.follower.failure }) {
            return SourceDelivery(.failure(failure.configError))
        }
        do throws(ConfigError) {
            return SourceDelivery(.success(try await answer(validator, mayBeEmpty: false)), validator: validator)
        } catch {
            return SourceDelivery(.failure(error))
        }
    }

    /// Builds a response from the known keys outside any actor.
    private func answer(_ validator: Validator?, mayBeEmpty: Bool) async throws(ConfigError) -> SourceResponse {
        try await concurrently { () async throws(ConfigError) in
            if let answer = try answerByEditing(validator) { return answer }
            guard let known = state.withLock({ $0.follower.known }) else {
                throw ConfigError(.upstreamFailed, "\(location) has not been read yet; retry")
            }
            let head = head(of: known)
            if validator != nil, validator == head.validator { return .notModified }
            let value = try document.value(of: known.values, mayBeEmpty: mayBeEmpty)
            return answer(value, head)
        }
    }

    /// The result if the document is unchanged or only scalars differ; nil if the document must be built from all keys.
    private func answerByEditing(_ validator: Validator?) throws(ConfigError) -> SourceResponse? {
        // The keyspace is read under the lock and not copied out of it: with two references to it, the next event would
        // copy all keys.
        let known = state.withLock { state -> (Head, EtcdRendering, [(key: [UInt8], value: [UInt8])])? in
            guard let known = state.follower.known, let rendering = state.rendering,
                let pairs = rendering.pairs(changedIn: known)
            else { return nil }
            return (head(of: known), rendering, pairs)
        }
        guard let (head, rendering, pairs) = known else { return nil }
        if validator != nil, validator == head.validator { return .notModified }
        guard let (value, edits) = try document.editing(rendering.document, pairs) else { return nil }
        return answer(value, head, edits)
    }

    /// The version and validator of a document.
    private struct Head {
        let stamp: EtcdKeyspace.Stamp
        let version: UpstreamVersion
        /// The validator is derived from the content instead of the revision, so that it stays valid after a restart of
        /// the agent or a change of keys outside the document.
        let validator: Validator?
    }

    private func head(of known: EtcdKeyspace) -> Head {
        Head(
            stamp: known.stamp, version: UpstreamVersion(String(known.changedAt), series: known.cluster),
            validator: Validator(etag: "\"\(known.digest)-\(document.format.rawValue)\""))
    }

    private func answer(_ value: JSONValue, _ head: Head, _ edits: SourceDocument.Edits? = nil) -> SourceResponse {
        state.withLock { $0.rendering = EtcdRendering(stamp: head.stamp, document: value) }
        var document = SourceDocument(value: value, version: head.version, validator: head.validator)
        document.edits = edits
        return .document(document)
    }

    func key(of path: [String]) -> String? {
        state.withLock { $0.follower.known }.flatMap { document.key(of: path, in: $0.values) }
    }

    /// Reads all keys.
    /// - Parameter number: the number of the step; nil for a read by the refresh flow
    private func read(step number: Int? = nil) async throws(EtcdError) {
        let start = state.withLock { $0.follower.readBegins() }
        do throws(EtcdError) {
            let reading = try await client.read()
            let previous = state.withLock { $0.follower.known?.cluster }
            if let previous, previous != reading.cluster {
                logger.notice(
                    "the endpoints belong to another cluster than before, with its own revisions",
                    metadata: ["source": "\(location)"])
            }
            let isElsewhere = client.isWatchElsewhere
            update { follower, _ in follower.readCompleted(reading, began: start, isElsewhere: isElsewhere) }
        } catch {
            if error.kind == .cancelled { throw error }
            update { follower, generator in
                guard let number else { return follower.refreshReadFailed() }
                return follower.readFailed(error, number: number, using: &generator)
            }
            throw error
        }
    }

    // MARK: Following

    var following: SourceFollowing {
        state.withLock { state in
            guard state.signal != nil else { return .working }
            if let failure = state.follower.watchFailure { return .failing(failure.configError) }
            return state.follower.hasWatched ? .working : .connecting
        }
    }

    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.signal = signal }
        // A fetch may follow at once. If the task made this step, the delay could begin after the fetch has ended it.
        update { follower, generator in follower.begin(after: delay, using: &generator) }
        let task = Task { await follow() }
        signal.onTermination = { _ in task.cancel() }
        return SourceDocuments(after: signals) { await self.delivery(ifChangedFrom: validator()) }
    }

    /// Runs one step after another until the task is cancelled.
    private func follow() async {
        while !Task.isCancelled {
            let (attention, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let step = state.withLock { state in
                state.attention = continuation
                return state.follower.step
            }
            await withTaskGroup { group in
                group.addTask { await self.run(step) }
                group.addTask { await self.awaitReplacement(of: step, attention) }
                await group.next()
                group.cancelAll()
            }
        }
    }

    private func run(_ step: EtcdFollower.Step) async {
        switch step.task {
        case .pause(let time):
            try? await clock.sleep(for: time)
            if !Task.isCancelled { update { follower, _ in follower.pauseEnded(step.number) } }
        case .read:
            // read(step:) has already reported the failure to the follower.
            try? await read(step: step.number)
        case .watch(let revision):
            let end = await client.watch(after: revision) { message throws(EtcdError) in
                try self.receive(message, step.number)
            }
            if Task.isCancelled { return }
            update { follower, generator in follower.watchEnded(end, number: step.number, using: &generator) }
        }
    }

    private func receive(_ message: EtcdWatchMessage, _ number: Int) throws(EtcdError) {
        let result = state.withLock { state in
            Result { () throws(EtcdError) in try state.follower.watchReceived(message, number: number) }
        }
        perform(try result.get())
    }

    /// Returns when the step has been replaced. If its watch is suspected to be dead and then receives no message for
    /// the timeout of a request, ends the step and returns.
    private func awaitReplacement(of step: EtcdFollower.Step, _ attention: AsyncStream<Void>) async {
        for await _ in attention {
            guard let isSuspect = suspicion(step) else { return }
            if !isSuspect { continue }
            try? await clock.sleep(for: timeout)
            guard !Task.isCancelled, let isStillSuspect = suspicion(step) else { return }
            if !isStillSuspect { continue }
            update { follower, generator in follower.watchEnded(nil, number: step.number, using: &generator) }
            return
        }
    }

    /// Whether the watch of a step is suspected to be dead; nil if the step has been replaced.
    private func suspicion(_ step: EtcdFollower.Step) -> Bool? {
        state.withLock { $0.follower.step == step ? $0.follower.isSuspect : nil }
    }

    // MARK: The follower

    private func update(
        _ event: (inout EtcdFollower, inout any RandomNumberGenerator & Sendable) -> EtcdFollower.Effects
    ) {
        perform(state.withLock { event(&$0.follower, &$0.generator) })
    }

    /// Must be called without the lock, because it yields to streams.
    private func perform(_ effects: EtcdFollower.Effects) {
        let (signal, attention) = state.withLock { ($0.signal, $0.attention) }
        if effects.contains(.signal) { signal?.yield() }
        if !effects.isDisjoint(with: [.newStep, .suspicion]) { attention?.yield() }
    }
}
