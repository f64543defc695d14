import LarderConfig
import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderProtocol

extension ConfigSet: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let path = parameters.path.segments
        let change = LayerChange.set(
            path: path, value: parameters.value.detached(),
            timeToLive: parameters.ttlMilliseconds.map { .milliseconds($0) }, by: call.author)
        return call.outcome(
            of: change.on(parameters.ifRevision, path, parameters.ifValue, because: parameters.reason), in: namespace,
            isDryRun: parameters.isDryRun)
    }
}

extension ConfigUnset: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let path = parameters.path.segments
        let change = LayerChange.unset(path: path, by: call.author)
        return call.outcome(
            of: change.on(parameters.ifRevision, path, parameters.ifValue, because: parameters.reason), in: namespace,
            isDryRun: parameters.isDryRun)
    }
}

extension ConfigApply: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }
    /// An upper bound of the memory that a change or comparison takes in addition to the bytes and nodes of its values.
    private static let bytesOfPart = 1024

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let author = call.author
        let changes = parameters.changes.compactMap { change -> LayerChange? in
            switch change.operation {
            case .set(let value, let lifetime):
                .set(
                    path: change.path.segments, value: value.detached(),
                    timeToLive: lifetime.map { .milliseconds($0) }, by: author)
            case .unset: .unset(path: change.path.segments, by: author)
            case .test: nil
            }
        }
        let condition = ChangeCondition(
            parameters.ifRevision,
            comparisons: parameters.changes.compactMap { .init($0.ifValue, at: $0.path.segments) })
        let terms = ChangeTerms(condition: condition, reason: parameters.reason)
        // Each change and each comparison has a path and a document of its own.
        let parts = changes.count + (condition?.comparisons.count ?? 0)
        return call.outcome(
            of: LayerChange.several(changes, by: author).on(terms), in: namespace, isDryRun: parameters.isDryRun,
            retainedBytes: parts * bytesOfPart)
    }
}

extension ConfigIncrement: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        if parameters.path.isRoot {
            throw WireError(.invalidParams, "\"path\" is empty; only a number below it can be incremented")
        }
        let change = LayerChange.increment(
            path: parameters.path.segments,
            CounterStep(by: parameters.by, minimum: parameters.minimum, maximum: parameters.maximum), by: call.author
        ).on(ChangeTerms(reason: parameters.reason))
        let (executor, visibility) = (call.loop.executor(for: namespace), call.visibility(in: namespace))
        // The value of a conflict is a number.
        return .later(size: .small) { completion in
            let handle = namespace.store.submit(change, on: executor) { outcome in
                namespace.complete(completion, outcome, of: change, visibility) { commit in
                    Result(
                        value: commit.number ?? 0, revision: commit.revision, epoch: namespace.publication.epoch,
                        changed: commit.changed)
                }
            }
            return { _ in handle.cancel() }
        }
    }
}

extension ConfigPush: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let terms = ChangeTerms(parameters.ifRevision, because: parameters.reason)
        let (peer, force) = (call.author, parameters.force)
        let visibility = call.visibility(in: namespace)
        let version = parameters.version ?? ""
        let document = SourceDocument(
            value: parameters.document.detached(), version: version.isEmpty ? nil : UpstreamVersion(version),
            pushedBy: peer, reason: parameters.reason)
        let isDryRun = parameters.isDryRun
        let size = isDryRun ? ReplySize.atMost(namespace.bytesOfReply) : .small
        return .reply(size: size) { () async throws(WireError) in
            if isDryRun {
                let change = LayerChange.remote(document, origin: SourceOrigin.push, force: force, isPush: true)
                return try await namespace.preview(change.on(terms), visibility)
            }
            do throws(ConfigError) {
                let commit = try await namespace.refresher.applyPushedConfig(document, force: force, terms: terms)
                    .commit
                return WireConfigChange(
                    revision: commit.revision, epoch: namespace.publication.epoch, changed: commit.changed)
            } catch {
                throw WireError(error, of: namespace.publication, visibility)
            }
        }
    }
}

extension ConfigRefresh: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (force, namespace) = (call.parameters.force, try call.namespace(call.parameters.namespace))
        let visibility = call.visibility(in: namespace)
        return .reply { () async throws(WireError) in
            try await namespace.refresh(force: force, visibility)
        }
    }
}

extension MethodCall where Method.Result == WireConfigChange {
    /// Submits a change of overrides, or previews it.
    fileprivate func outcome(
        of change: LayerChange, in namespace: ConfigNamespace, isDryRun: Bool, retainedBytes: Int = 0
    ) -> Outcome<WireConfigChange> {
        let visibility = visibility(in: namespace)
        if isDryRun {
            var reply = TaskReply(size: .atMost(namespace.bytesOfReply)) { () async throws(WireError) in
                try await namespace.preview(change, visibility)
            }
            reply.retainedBytes = retainedBytes
            return .task(reply)
        }
        let executor = loop.executor(for: namespace)
        let size = change.sizeOfConflict(in: namespace.publication, visibility)
        return .later(size: size, retainedBytes: retainedBytes) { completion in
            let handle = namespace.store.submit(change, on: executor) { outcome in
                namespace.complete(completion, outcome, of: change, visibility) { namespace.change($0) }
            }
            return { _ in handle.cancel() }
        }
    }
}

extension LayerChange {
    /// The size of the error if a condition of the change does not hold. The error contains the value that differs.
    fileprivate func sizeOfConflict(in publication: ConfigPublication, _ visibility: ValueVisibility) -> ReplySize {
        guard visibility.mayRead, case .requested(_, let terms) = self, let condition = terms.condition,
            !condition.comparisons.isEmpty
        else { return .small }
        let current = publication.current.snapshot.value
        let bytes = condition.comparisons.map { current.value(at: JSONPath($0.path))?.textSize ?? 0 }
        return .atMost(bytes.max() ?? 0)
    }
}

extension LoopContext {
    /// The executor of this loop, if the namespace is so small that resolving it takes less time than a switch to
    /// another thread; otherwise nil.
    fileprivate func executor(for namespace: ConfigNamespace) -> LoopTaskExecutor? {
        namespace.publication.current.snapshot.bytes <= 16 * 1024 ? taskExecutor : nil
    }
}

extension ConfigNamespace {
    /// Completes a request with the outcome of its change.
    /// - Parameter result: returns the result of the method if the change was committed
    fileprivate func complete<Value>(
        _ completion: Completion<Value>, _ outcome: Result<CommitOutcome, ConfigError>, of change: LayerChange,
        _ visibility: ValueVisibility, _ result: (CommitOutcome) -> Value
    ) {
        switch outcome {
        case .success(let commit): completion.complete(.success(result(commit)))
        case .failure(let error) where error.code == .locked:
            Task {
                let error = await explained(error, of: change)
                completion.complete(.failure(WireError(error, of: publication, visibility)))
            }
        case .failure(let error): completion.complete(.failure(WireError(error, of: publication, visibility)))
        }
    }

    fileprivate func change(_ commit: CommitOutcome) -> WireConfigChange {
        WireConfigChange(
            revision: commit.revision, epoch: publication.epoch, changed: commit.changed,
            expiresAt: commit.lifetime?.expiresAt.map { Timestamp(milliseconds: $0) },
            lifetimeChanged: commit.lifetime?.changed ?? false)
    }

    private func filesRefreshed() async -> Result<CommitOutcome, ConfigError> {
        do throws(ConfigError) { return .success(try await refreshFiles()) } catch { return .failure(error) }
    }

    fileprivate func refresh(force: Bool, _ visibility: ValueVisibility) async throws(WireError) -> ConfigRefresh.Result
    {
        do throws(ConfigError) {
            // The files are read while the source is polled. Concurrent requests share the response of the source.
            async let files = filesRefreshed()
            let outcome = force ? try await refresher.forceRefresh() : try await refresher.refreshIfNeeded()
            let filesCommit = try await files.get()
            // The reply reports the state after this refresh. If the next refresh has already begun, the current state
            // is `refreshing`; the reply then has the state that this refresh led to.
            let freshness = publication.current.freshness
            let state = freshness == .refreshing ? outcome.freshness : freshness
            return ConfigRefresh.Result(
                revision: max(outcome.commit.revision, filesCommit.revision), epoch: publication.epoch,
                changed: outcome.commit.changed || filesCommit.changed, notModified: outcome.notModified,
                state: ConfigState(state), upstreamVersion: outcome.upstreamVersion)
        } catch {
            throw WireError(error, of: publication, visibility)
        }
    }
}
