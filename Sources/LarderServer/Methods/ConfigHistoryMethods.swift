import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol

extension ConfigHistory: Method {
    /// The usual maximum of the memory of a history: 128 snapshots with 4 KiB each.
    private static let bytesOfHistory = 512 * 1024

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, limit) = (try call.namespace(call.parameters.namespace), call.parameters.limit)
        return .reply(size: .atMost(bytesOfHistory)) { () async throws(WireError) in
            let past = await namespace.store.history().snapshots(limit: limit ?? .max)
            return Result(
                namespace: namespace.name, epoch: namespace.publication.epoch,
                generations: past.enumerated().map { index, snapshot in
                    Generation(
                        revision: snapshot.revision, digest: "sha256:" + snapshot.digest, bytes: snapshot.bytes,
                        publishedAt: Timestamp(milliseconds: snapshot.publishedAt), current: index == 0,
                        upstreamVersion: snapshot.upstreamVersion, causes: snapshot.causes.map(\.wire),
                        isPinned: snapshot.isPinned)
                })
        }
    }
}

extension ConfigDiff: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, parameters) = (try call.namespace(call.parameters.namespace), call.parameters)
        let visibility = call.visibility(in: namespace)
        return .reply(size: namespace.size(ofReplyAbout: [parameters.from, parameters.to].compactMap(\.self))) {
            () async throws(WireError) in
            try await namespace.diff(parameters, visibility)
        }
    }
}

extension ConfigRollback: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, parameters) = (try call.namespace(call.parameters.namespace), call.parameters)
        let (peer, visibility) = (call.author, call.visibility(in: namespace))
        let size: ReplySize =
            switch parameters.action {
            case .goBack(let revision, _): namespace.size(ofReplyAbout: [revision])
            case .release: parameters.isDryRun ? .atMost(namespace.bytesOfReply) : .small
            }
        return .reply(size: size) { () async throws(WireError) in
            try await namespace.rollBack(parameters, by: peer, visibility)
        }
    }
}

extension ConfigPin: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, parameters) = (try call.namespace(call.parameters.namespace), call.parameters)
        return .reply(size: namespace.size(ofReplyAbout: [parameters.revision])) { () async throws(WireError) in
            try await WireError.from { () async throws(ConfigError) in
                let revision = parameters.revision
                let changed = try await namespace.store.history().pin(parameters.pinned, revision: revision)
                return Result(revision: revision, epoch: namespace.publication.epoch, changed: changed)
            }
        }
    }
}

extension ConfigBackup: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, revision) = (try call.namespace(call.parameters.namespace), call.parameters.revision)
        return .reply(size: namespace.size(ofReplyAbout: [revision].compactMap(\.self))) {
            () async throws(WireError) in
            try await WireError.from { () async throws(ConfigError) in
                let saved = try await namespace.store.history().saved(revision: revision)
                return Result(
                    namespace: namespace.name, epoch: namespace.publication.epoch, revision: saved.revision,
                    generation: saved.text, isPinned: saved.isPinned, revisions: saved.revisions)
            }
        }
    }
}

extension ConfigNamespace {
    /// An upper bound of the memory of a reply about the current documents, in bytes: a copy of the snapshot and of all
    /// layers, and their encoded text.
    var bytesOfReply: Int { 2 * publication.copiedBytes }

    /// The size of a reply about snapshots of the history and the current one.
    fileprivate func size(ofReplyAbout revisions: [Int]) -> ReplySize {
        let current = publication.current.snapshot.revision
        let past = Set(revisions.filter { $0 != current })
        if past.isEmpty { return .atMost(bytesOfReply) }
        return .measured { await self.bytesOfReply + self.store.history().copiedBytes(ofRevisions: past) }
    }

    func diff(
        _ parameters: ConfigDiff.Parameters, _ visibility: ValueVisibility
    ) async throws(WireError) -> ConfigDiff.Result {
        try await WireError.from { () async throws(ConfigError) in
            let to = parameters.to ?? publication.current.snapshot.revision
            let old = try await store.history().value(ofRevision: parameters.from)
            let new = try await store.history().value(ofRevision: to)
            let difference = await ConfigDifference.between(old, new, at: parameters.path)
            let shown = VisibleDifference(difference, visibility)
            let patch = difference.patch.map { visibility.shown($0, at: parameters.path) }
            return ConfigDiff.Result(
                from: parameters.from, to: to, epoch: publication.epoch, patch: patch?.0, changes: shown.changes,
                isMasked: shown.isMasked || patch?.1 ?? false)
        }
    }

    fileprivate func rollBack(
        _ parameters: ConfigRollback.Parameters, by peer: Peer, _ visibility: ValueVisibility
    ) async throws(WireError) -> ConfigRollback.Result {
        let (action, terms) = (parameters.action, ChangeTerms(parameters.ifRevision, because: parameters.reason))
        do throws(ConfigError) {
            let change =
                switch action {
                case .goBack(let revision, let hold):
                    try await store.rollback(
                        toRevision: revision, hold: hold.flatMap { HoldRule(rawValue: $0.rawValue) }, by: peer
                    ).on(terms)
                case .release: LayerChange.release(by: peer).on(terms)
                }
            if parameters.isDryRun {
                let run = try await dryRun(change, visibility)
                let preview = run.preview
                return ConfigRollback.Result(
                    revision: preview.current.revision, epoch: publication.epoch, changed: run.changed,
                    held: preview.result.hold != nil,
                    hold: preview.result.hold.flatMap { ConfigRollback.Hold(rawValue: $0.rawValue) },
                    released: action == .release && preview.result.layerChanged, isDryRun: true,
                    changes: run.shown.changes, isMasked: run.shown.isMasked, schemaErrors: run.schemaErrors)
            }
            let commit = try await store.commit(change)
            return ConfigRollback.Result(
                revision: commit.revision, epoch: publication.epoch, changed: commit.changed, held: commit.isHeld,
                hold: commit.hold.flatMap { ConfigRollback.Hold(rawValue: $0.rawValue) },
                released: action == .release && commit.layerChanged)
        } catch {
            throw WireError(error, of: publication, visibility)
        }
    }
}

extension ChangeCause {
    fileprivate var wire: ConfigHistory.Cause {
        ConfigHistory.Cause(
            kind: kind.rawValue, path: path.map { JSONPath($0).description }, revision: revision,
            peer: peer.map(WirePeer.init), origin: origin, reason: reason)
    }
}
