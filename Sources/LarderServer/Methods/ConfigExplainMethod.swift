import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderProtocol

extension ConfigExplain: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespace = try call.namespace(call.parameters.namespace)
        let (path, secrets) = (call.parameters.path, call.context.secrets(of: namespace))
        return .reply(size: .atMost(namespace.bytesOfReply)) { () async throws(WireError) in
            Result(await namespace.explain(path), of: namespace, hiding: secrets)
        }
    }
}

extension ConfigExplain.Result {
    /// Converts an explanation. Masks values at paths that match the patterns of secrets.
    fileprivate init(_ explanation: ConfigExplanation, of namespace: ConfigNamespace, hiding secrets: SecretPatterns) {
        let value = explanation.value.map { secrets.masked($0, at: explanation.path) }
        self.init(
            path: explanation.path.description, namespace: namespace.name, revision: explanation.revision,
            epoch: namespace.publication.epoch, value: value?.0, winner: explanation.winner?.rawValue,
            isMasked: value?.1 ?? false,
            lock: explanation.lock.map {
                ConfigExplain.Lock(path: $0.path.description, file: $0.file, line: $0.line, settings: $0.settings)
            },
            documentation: explanation.documentation.map {
                ConfigExplain.Documentation(
                    title: $0.title, description: $0.description, defaultValue: $0.defaultValue)
            },
            layers: explanation.layers.map { layer in
                let value = layer.value.map { secrets.masked($0, at: explanation.path) }
                return ConfigExplain.Layer(
                    name: layer.layer.rawValue, value: value?.0, isMasked: value?.1 ?? false, isHiding: layer.hides,
                    source: layer.source.map(ConfigExplain.Source.init),
                    since: layer.since.map {
                        ConfigExplain.Since(
                            revision: $0.revision, at: Timestamp(milliseconds: $0.at), orEarlier: $0.orEarlier)
                    }, heldRevision: layer.heldRevision)
            })
    }
}

extension ConfigExplain.Source {
    fileprivate init(_ source: ConfigExplanation.Source) {
        self.init(
            kind: source.kind, location: source.location, file: source.file, line: source.line, key: source.key,
            version: source.version, experiment: source.experiment,
            peer: source.peer.map(WirePeer.init), reason: source.reason,
            expiresAt: source.expiresAt.map(Timestamp.init(milliseconds:)))
    }
}

extension WirePeer {
    /// Converts the description of the process that set a value to its form in the protocol.
    init(_ peer: Peer) {
        self.init(pid: peer.pid, uid: peer.uid, command: peer.command, loginUid: peer.loginUID)
    }
}

extension ConfigOverrides: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespace = try call.namespace(call.parameters.namespace)
        let (path, limit) = (call.parameters.path.segments, call.parameters.limit)
        let (after, secrets) = (try call.parameters.start, call.context.secrets(of: namespace))
        return .task(
            .encoding { (memory) async throws(WireError) in
                let (overrides, revision) = namespace.publication.overrides
                // The entries of the page share their values with the layer.
                let page = await overrides.page(at: path, after: after, limit: limit)
                do throws(UsageRefusal) {
                    try memory.reserve(page.copiedBytes)
                } catch {
                    throw memory.error(of: error)
                }
                return Result(
                    namespace: namespace.name, revision: revision, epoch: namespace.publication.epoch,
                    overrides: page.entries.map { Entry($0, hiding: secrets) },
                    next: page.isFull ? page.entries.last.map { JSONPath($0.path).description } : nil)
            })
    }
}

extension ConfigOverrides.Parameters {
    /// The path after which the page begins; nil for the first page.
    fileprivate var start: [String]? {
        get throws(WireError) {
            guard let after else { return nil }
            guard let start = try? JSONPath(parsing: after).segments, start.count >= path.segments.count,
                zip(start, path.segments).allSatisfy({ $0.isSpelled(as: $1) })
            else {
                throw WireError(
                    .invalidParams, "\"after\" must be \"next\" of the previous page, but is \"\(after.excerpt)\"")
            }
            return start
        }
    }
}

extension ConfigOverrides.Entry {
    /// Converts an override. Masks values at paths that match the patterns of secrets.
    fileprivate init(_ entry: OverrideEntry, hiding secrets: SecretPatterns) {
        let path = JSONPath(entry.path)
        let (value, isMasked) = secrets.masked(entry.value, at: path)
        self.init(
            path: path.description, value: value, setAt: Timestamp(milliseconds: entry.setAt),
            expiresAt: entry.expiresAt.map(Timestamp.init(milliseconds:)), peer: entry.setBy.map(WirePeer.init),
            reason: entry.reason, isMasked: isMasked)
    }
}

extension ConfigSchema: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespace = try call.namespace(call.parameters.namespace)
        return .reply { () async throws(WireError) in
            guard let schema = await namespace.store.schema else {
                throw WireError(
                    .notFound, "no schema is in force in namespace \"\(namespace.name)\"; the setting is \"schema\""
                )
            }
            return Result(
                namespace: namespace.name, schema: schema.document, digest: "sha256:" + schema.digest.text,
                path: schema.settings.path, enforce: schema.settings.enforcement.rawValue,
                assertFormats: schema.settings.assertsFormats)
        }
    }
}
