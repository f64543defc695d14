import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderConfig
import LarderProtocol

extension MethodTable {
    mutating func addConfigMethods() {
        reading(ConfigGet.self) { (scope, parameters) throws(WireError) in
            try scope.isYoungEnough(parameters) ? scope.read(parameters) : nil
        } orLater: { (scope, parameters) async throws(WireError) in
            try await scope.refresh(for: parameters)
            return try scope.read(parameters).result
        }
        own(ConfigOpen.self) { (connection, request) throws(WireError) in
            try ConfigOpenMethod(connection: connection).serve(request)
        }
        waiting(ConfigWait.self) { (scope, parameters) throws(WireError) in
            SnapshotWait(parameters, try scope.namespace(parameters.namespace).publication)
        }
        immediate(ConfigStatus.self) { (scope, parameters) throws(WireError) in
            try scope.status(parameters)
        }
        connection(ConfigSubscribe.self, needsReply: true) { (connection, parameters) throws(WireError) in
            try SubscriptionMethods(connection: connection).subscribe(parameters)
        }
        connection(ConfigUnsubscribe.self) { (connection, parameters) throws(WireError) in
            ConnectionReply(result: try SubscriptionMethods(connection: connection).unsubscribe(parameters))
        }
        connection(ConfigAcknowledge.self) { (connection, parameters) throws(WireError) in
            ConnectionReply(result: try SubscriptionMethods(connection: connection).acknowledge(parameters))
        }
        change(ConfigSet.self) { (scope, parameters) throws(WireError) in
            let namespace = try scope.namespace(parameters.namespace)
            return { completion in
                namespace.set(
                    parameters.path, to: parameters.value.detached(),
                    timeToLive: parameters.ttlMilliseconds.map { .milliseconds($0) }, by: scope.peer.provenance,
                    on: scope.executor(for: namespace)
                ) { completion(namespace.outcome($0)) }
            }
        }
        change(ConfigUnset.self) { (scope, parameters) throws(WireError) in
            let namespace = try scope.namespace(parameters.namespace)
            return { completion in
                namespace.store.unset(
                    parameters.path, by: scope.peer.provenance, on: scope.executor(for: namespace)
                ) { completion(namespace.outcome($0)) }
            }
        }
        deferred(ConfigPush.self, endsWithConnection: false) { (scope, parameters) async throws(WireError) in
            let namespace = try scope.namespace(parameters.namespace)
            let document = SourceDocument(
                value: parameters.document.detached(), version: parameters.version.map(UpstreamVersion.init),
                pushedBy: scope.peer.provenance)
            do throws(ConfigError) {
                let commit = try await namespace.refresher.applyPushedConfig(document, force: parameters.force).commit
                return ConfigChange(
                    revision: commit.revision, epoch: namespace.publication.epoch, changed: commit.changed)
            } catch {
                throw WireError(error)
            }
        }
        deferred(ConfigRefresh.self, endsWithConnection: true) { (scope, parameters) async throws(WireError) in
            try await scope.namespace(parameters.namespace).refresh(force: parameters.force)
        }
    }
}

extension RequestScope {
    /// A value, read without waiting for any writer.
    fileprivate func read(_ parameters: ConfigGet.Parameters) throws(WireError) -> MethodTable.SnapshotReading {
        let publication = try namespace(parameters.namespace).publication
        let current = publication.current
        guard current.snapshot.revision > 0, let value = current.snapshot.value.value(at: parameters.path) else {
            throw Self.missing(parameters, current)
        }
        return MethodTable.SnapshotReading(
            publication: publication, current: current, requirement: ConfigGet.requirement(parameters),
            result: ConfigGet.Result(
                value: value, revision: current.snapshot.revision, epoch: publication.epoch,
                state: ConfigState(current.freshness)),
            isRepeatable: parameters.maximumAgeSeconds == nil)
    }

    /// Why there is nothing at a path.
    static func missing(_ parameters: ConfigGet.Parameters, _ current: ConfigPublication.Current) -> WireError {
        let (path, namespace) = (parameters.path, parameters.namespace)
        if current.awaitsSource {
            return WireError(
                .unavailable,
                "nothing is at \"\(path)\" of namespace \"\(namespace)\", whose remote source has not given a usable "
                    + "answer yet; config.status says why")
        }
        return WireError(.notFound, "nothing is at \"\(path)\" of namespace \"\(namespace)\"")
    }

    fileprivate func status(_ parameters: ConfigStatus.Parameters) throws(WireError) -> ConfigStatus.Result {
        let namespaces = try parameters.namespace.map { (name) throws(WireError) in [try namespace(name)] }
        return ConfigStatus.Result(namespaces: (namespaces ?? readableNamespaces).map(status))
    }

    private func status(of namespace: ConfigNamespace) -> ConfigStatus.Namespace {
        var status = namespace.wireStatus
        status.acknowledgements = connections.acknowledgements.summary(of: namespace.name)
        status.copy = context.copies.map { copies in
            let (path, problem) = copies.copy(of: namespace.name)
            return ConfigStatus.Copy(path: path, problem: problem)
        }
        return status
    }
}

extension RequestScope {
    /// The loop, where a namespace's configuration is resolved in less time than a change of threads takes; else nil.
    fileprivate func executor(for namespace: ConfigNamespace) -> LoopTaskExecutor? {
        namespace.publication.current.snapshot.bytes <= 16 * 1024 ? taskExecutor : nil
    }
}

extension ConfigNamespace {
    /// What came of a change, in the protocol's words.
    fileprivate func outcome(
        _ result: Result<CommitOutcome, ConfigError>
    ) -> Result<any WireResult, WireError> {
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
            // The source is asked meanwhile: who asks together shares its answer.
            async let files = filesRefreshed()
            let outcome = force ? try await refresher.forceRefresh() : try await refresher.refreshIfNeeded()
            let filesCommit = try await files.get()
            // The next refresh may have begun meanwhile; this one's reply tells of this one.
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

extension WireError {
    /// A configuration error in the protocol's words.
    init(_ error: ConfigError) {
        switch error.code {
        case .upstreamFailed: self.init(.upstreamFailed, error.message)
        case .rejected: self.init(.rejected, error.message)
        case .storageFailed: self.init(.storageFailed, error.message)
        case .cancelled: self.init(.cancelled, error.message)
        case .stopped: self.init(.shuttingDown, error.message)
        case .invalidChange: self.init(.invalidParams, error.message)
        case .notFound: self.init(.notFound, error.message)
        case .locked: self.init(.denied, error.message)
        default: self.init(.internalError, error.message)
        }
    }
}
