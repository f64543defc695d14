import LarderConfig
import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderProtocol

extension ConfigSet: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let (peer, executor) = (call.peer.provenance, call.loop.executor(for: namespace))
        return .later { completion in
            let change = namespace.set(
                parameters.path, to: parameters.value.detached(),
                timeToLive: parameters.ttlMilliseconds.map { .milliseconds($0) }, by: peer, on: executor
            ) { completion.complete(namespace.change($0)) }
            return { _ in change.cancel() }
        }
    }
}

extension ConfigUnset: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (path, namespace) = (call.parameters.path, try call.namespace(call.parameters.namespace))
        let (peer, executor) = (call.peer.provenance, call.loop.executor(for: namespace))
        return .later { completion in
            let change = namespace.store.submit(.unset(path: path.segments, by: peer), on: executor) {
                completion.complete(namespace.change($0))
            }
            return { _ in change.cancel() }
        }
    }
}

extension ConfigPush: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        let peer = call.peer.provenance
        return .task(
            TaskReply { () async throws(WireError) in
                let document = SourceDocument(
                    value: parameters.document.detached(), version: parameters.version.map(UpstreamVersion.init),
                    pushedBy: peer)
                do throws(ConfigError) {
                    let commit = try await namespace.refresher.applyPushedConfig(document, force: parameters.force)
                        .commit
                    return ConfigChange(
                        revision: commit.revision, epoch: namespace.publication.epoch, changed: commit.changed)
                } catch {
                    throw WireError(error)
                }
            })
    }
}

extension ConfigRefresh: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (force, namespace) = (call.parameters.force, try call.namespace(call.parameters.namespace))
        return .task(TaskReply { () async throws(WireError) in try await namespace.refresh(force: force) })
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
    fileprivate func change(_ result: Result<CommitOutcome, ConfigError>) -> Result<ConfigChange, WireError> {
        switch result {
        case .success(let commit):
            .success(
                ConfigChange(
                    revision: commit.revision, epoch: publication.epoch, changed: commit.changed,
                    expiresAt: commit.lifetime?.expiresAt.map { Timestamp(milliseconds: $0) },
                    lifetimeChanged: commit.lifetime?.changed ?? false))
        case .failure(let error): .failure(WireError(error))
        }
    }

    private func filesRefreshed() async -> Result<CommitOutcome, ConfigError> {
        do throws(ConfigError) { return .success(try await refreshFiles()) } catch { return .failure(error) }
    }

    fileprivate func refresh(force: Bool) async throws(WireError) -> ConfigRefresh.Result {
        do throws(ConfigError) {
            // The files are read while the source is polled. Concurrent requests share the response of the source.
            async let files = filesRefreshed()
            let outcome = force ? try await refresher.forceRefresh() : try await refresher.refreshIfNeeded()
            let filesCommit = try await files.get()
            // The reply reports the state after this refresh, although the next one may have begun.
            let freshness = publication.current.freshness
            let state = freshness == .refreshing ? outcome.freshness : freshness
            return ConfigRefresh.Result(
                revision: max(outcome.commit.revision, filesCommit.revision), epoch: publication.epoch,
                changed: outcome.commit.changed || filesCommit.changed, notModified: outcome.notModified,
                state: ConfigState(state), upstreamVersion: outcome.upstreamVersion)
        } catch {
            throw WireError(error)
        }
    }
}
