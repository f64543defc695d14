import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol

extension ConfigHistory: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, limit) = (try call.namespace(call.parameters.namespace), call.parameters.limit)
        return .task(TaskReply { () async throws(WireError) in await namespace.history(limit: limit) })
    }
}

extension ConfigDiff: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, parameters) = (try call.namespace(call.parameters.namespace), call.parameters)
        let secrets = call.context.secrets(of: namespace)
        return .task(
            TaskReply { () async throws(WireError) in try await namespace.difference(parameters, hiding: secrets) })
    }
}

extension ConfigRollback: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, action) = (try call.namespace(call.parameters.namespace), call.parameters.action)
        let peer = call.peer.provenance
        return .task(TaskReply { () async throws(WireError) in try await namespace.rollBack(action, by: peer) })
    }
}

extension ConfigPin: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, parameters) = (try call.namespace(call.parameters.namespace), call.parameters)
        return .task(
            TaskReply { () async throws(WireError) in
                try await namespace.pin(parameters.pinned, revision: parameters.revision)
            })
    }
}

extension ConfigBackup: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (namespace, revision) = (try call.namespace(call.parameters.namespace), call.parameters.revision)
        return .task(TaskReply { () async throws(WireError) in try await namespace.backup(ofRevision: revision) })
    }
}

extension ConfigNamespace {
    fileprivate func history(limit: Int?) async -> ConfigHistory.Result {
        let past = await store.history().snapshots()
        return ConfigHistory.Result(
            namespace: name, epoch: publication.epoch,
            generations: past.prefix(limit ?? past.count).enumerated().map { index, snapshot in
                ConfigHistory.Generation(
                    revision: snapshot.revision, digest: "sha256:" + snapshot.digest, bytes: snapshot.bytes,
                    publishedAt: Timestamp(milliseconds: snapshot.publishedAt), current: index == 0,
                    upstreamVersion: snapshot.upstreamVersion, causes: snapshot.causes.map(\.wire),
                    isPinned: snapshot.isPinned)
            })
    }

    func difference(
        _ parameters: ConfigDiff.Parameters, hiding secrets: SecretPatterns
    ) async throws(WireError) -> ConfigDiff.Result {
        do throws(ConfigError) {
            let to = parameters.to ?? publication.current.snapshot.revision
            let old = try await store.history(of: parameters.from).value(ofRevision: parameters.from)
            let new = try await store.history(of: to).value(ofRevision: to)
            let difference = await ConfigDifference.between(old, new, at: parameters.path)
            var isMasked = false
            func masked(_ value: JSONValue?, at path: JSONPath) -> JSONValue? {
                guard let value else { return nil }
                let (shown, hidesSomething) = secrets.masked(value, at: path)
                isMasked = isMasked || hidesSomething
                return shown
            }
            let changes = difference.places.map { place in
                ConfigDiff.Change(
                    path: place.path.segments, kind: place.old == nil ? .added : place.new == nil ? .removed : .changed,
                    old: masked(place.old, at: place.path), new: masked(place.new, at: place.path))
            }
            let patch = masked(difference.patch, at: parameters.path)
            return ConfigDiff.Result(
                from: parameters.from, to: to, epoch: publication.epoch, patch: patch, changes: changes,
                isMasked: isMasked)
        } catch {
            throw WireError(error)
        }
    }

    fileprivate func pin(_ isPinned: Bool, revision: Int) async throws(WireError) -> ConfigPin.Result {
        do throws(ConfigError) {
            let changed = try await store.history(of: revision).pin(isPinned, revision: revision)
            return ConfigPin.Result(revision: revision, epoch: publication.epoch, changed: changed)
        } catch {
            throw WireError(error)
        }
    }

    fileprivate func backup(ofRevision revision: Int?) async throws(WireError) -> ConfigBackup.Result {
        do throws(ConfigError) {
            let saved = try await store.history().saved(revision: revision)
            return ConfigBackup.Result(
                namespace: name, epoch: publication.epoch, revision: saved.revision, generation: saved.text,
                isPinned: saved.isPinned, revisions: saved.revisions)
        } catch {
            throw WireError(error)
        }
    }

    fileprivate func rollBack(
        _ action: ConfigRollback.Action, by peer: Peer
    ) async throws(WireError) -> ConfigRollback.Result {
        do throws(ConfigError) {
            let commit =
                switch action {
                case .goBack(let revision, let hold):
                    try await store.rollBack(
                        toRevision: revision, hold: hold.flatMap { HoldRule(rawValue: $0.rawValue) }, by: peer)
                case .release: try await store.release(by: peer)
                }
            return ConfigRollback.Result(
                revision: commit.revision, epoch: publication.epoch, changed: commit.changed, held: commit.isHeld,
                hold: commit.hold.flatMap { ConfigRollback.Hold(rawValue: $0.rawValue) },
                released: action == .release && commit.layerChanged)
        } catch {
            throw WireError(error)
        }
    }
}

extension ChangeCause {
    fileprivate var wire: ConfigHistory.Cause {
        ConfigHistory.Cause(
            kind: kind.rawValue, path: path.map { JSONPath($0).description }, revision: revision,
            peer: peer.map(WirePeer.init), origin: origin)
    }
}
