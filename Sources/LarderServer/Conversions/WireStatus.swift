import LarderConfig
import LarderConfigModel
import LarderPlatform
import LarderProtocol

extension ConfigStatus.Problem {
    fileprivate init(_ problem: ConfigStatusReport.Problem) {
        self.init(
            name: WireError(problem.error).code.name, message: problem.error.message,
            at: Timestamp(milliseconds: problem.at))
    }
}

extension ConfigNamespace {
    /// The status of the namespace, for `config.status`.
    var wireStatus: ConfigStatus.Namespace {
        let (current, status) = (publication.current, publication.status)
        let now = WallClock.system.now
        let isPublished = current.snapshot.revision > 0
        var result = ConfigStatus.Namespace(
            namespace: name, state: ConfigState(status.freshness), since: Timestamp(milliseconds: status.since),
            revision: current.snapshot.revision, epoch: publication.epoch,
            digest: isPublished ? "sha256:" + current.snapshot.digest : nil,
            bytes: isPublished ? current.snapshot.bytes : 0,
            publishedAt: isPublished ? Timestamp(milliseconds: current.snapshot.publishedAt) : nil,
            ageMilliseconds: status.upstream?.lastSuccessAt.map { max(0, now - $0) },
            durability: configuration.durability.rawValue,
            lastError: status.lastError.map(ConfigStatus.Problem.init),
            rejected: status.refused.map {
                ConfigStatus.Rejection(
                    version: $0.version, reason: $0.reason, canForce: $0.canForce,
                    at: Timestamp(milliseconds: $0.at))
            },
            upstream: status.upstream.map { upstream in
                ConfigStatus.Upstream(
                    kind: upstream.kind, location: upstream.location, version: status.upstreamVersion,
                    etag: status.etag, lastAttemptAt: upstream.lastAttemptAt.map(Timestamp.init(milliseconds:)),
                    lastSuccessAt: upstream.lastSuccessAt.map(Timestamp.init(milliseconds:)),
                    nextAttemptAt: upstream.nextAttemptAt.map(Timestamp.init(milliseconds:)),
                    consecutiveFailures: upstream.consecutiveFailures, watchError: upstream.watchError)
            },
            layers: status.layers.map { layer in
                ConfigStatus.Layer(
                    name: layer.layer.rawValue, present: layer.isPresent, bytes: layer.bytes, origin: layer.origin,
                    updatedAt: layer.updatedAt.map(Timestamp.init(milliseconds:)), problem: layer.problem)
            })
        result.writeError = status.writeError.map(ConfigStatus.Problem.init)
        result.quarantine = status.quarantine.map {
            ConfigStatus.Quarantine(
                version: $0.version, at: Timestamp(milliseconds: $0.at), members: $0.deletion.members,
                removed: $0.deletion.removed)
        }
        result.schema = configuration.schema.map { settings in
            ConfigStatus.SchemaState(
                path: settings.path, enforce: settings.enforcement.rawValue,
                digest: status.schema.digest.map { "sha256:" + $0.text }, problem: status.schemaFileProblem,
                errors: status.schema.problems.map(SchemaError.init))
        }
        result.schemaRejection = status.schema.refusal.map {
            ConfigStatus.SchemaRejection(
                layer: $0.layer?.rawValue, version: $0.version, at: Timestamp(milliseconds: $0.at),
                errors: $0.problems.map(SchemaError.init))
        }
        result.hold = status.hold.map {
            ConfigStatus.Hold(
                revision: $0.revision, rejectedVersion: $0.rejectedVersion, since: Timestamp(milliseconds: $0.since),
                layers: $0.layers.map(\.rawValue), rule: $0.rule.rawValue, reason: $0.reason,
                peer: $0.peer.map(WirePeer.init))
        }
        return result
    }
}
