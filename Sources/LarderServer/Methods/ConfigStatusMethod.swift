import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderProtocol

extension ConfigStatus: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespaces =
            if let name = call.parameters.namespace {
                [try call.namespace(name)]
            } else {
                call.context.monitoredNamespaces
            }
        let states = namespaces.map { ($0, $0.publication.current.snapshot) }
        func result() -> Result { Result(namespaces: states.map { Namespace($0, $1, call) }) }
        let digests = states.map(\.1.contentDigest).filter { !$0.isReady }
        if digests.isEmpty { return .now(result()) }
        // Hashing a large document would block the event loop.
        return .task(
            TaskReply(size: .small) {
                for digest in digests { await digest.computeConcurrently() }
            } finish: { _, _ in
                .success(result())
            })
    }
}

extension ConfigStatus.Namespace {
    /// The status of a namespace, with a snapshot that was current, for the peer that has sent a request.
    fileprivate init(_ namespace: ConfigNamespace, _ snapshot: ConfigSnapshot, _ call: MethodCall<ConfigStatus>) {
        let (publication, configuration) = (namespace.publication, namespace.configuration)
        let status = publication.status
        let (source, isPublished) = (status.source, snapshot.revision > 0)
        let certificate = namespace.certificateExpiry
        self.init(
            namespace: namespace.name, state: ConfigState(status.freshness),
            since: Timestamp(milliseconds: status.since), revision: snapshot.revision, epoch: publication.epoch,
            digest: isPublished ? "sha256:" + snapshot.digest : nil, bytes: isPublished ? snapshot.bytes : 0,
            publishedAt: isPublished ? Timestamp(milliseconds: snapshot.publishedAt) : nil,
            ageMilliseconds: source?.lastSuccessAt.map { max(0, WallClock.system.now - $0) },
            durability: configuration.durability.rawValue, lastError: status.lastError.map(ConfigStatus.Problem.init),
            rejected: status.rejected.map {
                ConfigStatus.Rejection(
                    version: $0.version, reason: $0.reason, canForce: $0.canForce, at: Timestamp(milliseconds: $0.at))
            },
            upstream: source.map {
                ConfigStatus.Upstream(
                    kind: $0.kind, location: $0.location, version: status.upstreamVersion, etag: status.etag,
                    lastAttemptAt: $0.lastAttemptAt.map(Timestamp.init(milliseconds:)),
                    lastSuccessAt: $0.lastSuccessAt.map(Timestamp.init(milliseconds:)),
                    nextAttemptAt: $0.nextAttemptAt.map(Timestamp.init(milliseconds:)),
                    consecutiveFailures: $0.consecutiveFailures, watchError: $0.watchError,
                    certificateExpiresAt: certificate.map { Timestamp(milliseconds: $0.time) },
                    certificateFile: certificate?.file)
            },
            layers: ConfigLayer.allCases.map { ConfigStatus.Layer($0, of: status) })
        writeError = status.writeError.map(ConfigStatus.Problem.init)
        quarantine = status.quarantine.map {
            ConfigStatus.Quarantine(
                version: $0.version, at: Timestamp(milliseconds: $0.at), members: $0.deletion.members,
                removed: $0.deletion.removed)
        }
        schema = configuration.schema.map { settings in
            ConfigStatus.SchemaState(
                path: settings.path, enforce: settings.enforcement.rawValue,
                digest: status.schema.digest.map { "sha256:" + $0.text }, problem: status.schemaFileProblem,
                errors: status.schema.problems.map(SchemaError.init))
        }
        schemaRejection = status.schema.rejection.map {
            ConfigStatus.SchemaRejection(
                layer: $0.layer?.rawValue, version: $0.version, at: Timestamp(milliseconds: $0.at),
                errors: $0.problems.map(SchemaError.init))
        }
        hold = status.hold.map {
            ConfigStatus.Hold(
                revision: $0.revision, rejectedVersion: $0.rejected?.version?.text,
                since: Timestamp(milliseconds: $0.since), layers: $0.layers.map(\.rawValue), rule: $0.rule.rawValue,
                reason: $0.reason, peer: $0.peer.map(WirePeer.init))
        }
        acknowledgements = call.loop.registry.acknowledgements.summary(of: namespace.name)
        copy = call.server.copies.map { copies in
            let (path, problem) = copies.copy(of: namespace.name)
            return ConfigStatus.Copy(path: path, problem: problem)
        }
        if !call.connection.rights.mayRead(namespace.name) { hideTexts() }
    }

    /// Replaces the texts that may quote a document, or that a client has sent. Their presence remains visible. Clients
    /// leave out a problem whose text is that of the last error, so a text that differs from it still does.
    private mutating func hideTexts() {
        let last = lastError?.message
        func hidden(_ text: String) -> String {
            "\(last.isSpelled(as: text) ? "the" : "this") text is hidden, because it requires the right \"read\""
        }
        if let problem = lastError { lastError?.message = hidden(problem.message) }
        if let problem = writeError { writeError?.message = hidden(problem.message) }
        if let rejection = rejected { rejected?.reason = hidden(rejection.reason) }
        func hiddenError(_ error: SchemaError) -> SchemaError {
            SchemaError(path: [], schemaPath: "#", keyword: "", message: hidden(error.message))
        }
        if var state = schema {
            state.problem = state.problem.map(hidden)
            state.errors = state.errors.map(hiddenError)
            schema = state
        }
        if let rejection = schemaRejection { schemaRejection?.errors = rejection.errors.map(hiddenError) }
        if let text = hold?.reason { hold?.reason = hidden(text) }
        if let text = upstream?.watchError { upstream?.watchError = hidden(text) }
        for index in layers.indices { layers[index].problem = layers[index].problem.map(hidden) }
        for index in acknowledgements.rejected.indices { acknowledgements.rejected[index].reason = nil }
        if let text = copy?.problem { copy?.problem = hidden(text) }
    }
}

extension ConfigStatus.Problem {
    fileprivate init(_ problem: NamespaceStatus.Problem) {
        self.init(
            name: WireError(problem.error).code.name, message: problem.error.message,
            at: Timestamp(milliseconds: problem.at))
    }
}

extension ConfigStatus.Layer {
    fileprivate init(_ layer: ConfigLayer, of status: PublishedStatus) {
        let content = status.content(of: layer)
        self.init(
            name: layer.rawValue, present: content.isPresent, bytes: content.bytes, origin: status.origin(of: layer),
            updatedAt: content.updatedAt.map(Timestamp.init(milliseconds:)), problem: status.problem(of: layer))
    }
}
