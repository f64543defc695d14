import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol

extension MethodTable {
    /// Adds `config.explain`.
    mutating func addExplainMethod() {
        deferred(ConfigExplain.self, endsWithConnection: true) { (scope, parameters) async throws(WireError) in
            let namespace = try scope.namespace(parameters.namespace)
            let explanation = await namespace.explain(parameters.path)
            return ConfigExplain.Result(explanation, of: namespace, hiding: scope.secrets(of: namespace))
        }
    }
}

extension ConfigExplain.Result {
    /// An explanation in the protocol's words, without the secrets that the peer may not see.
    fileprivate init(_ explanation: ConfigExplanation, of namespace: ConfigNamespace, hiding secrets: SecretPatterns) {
        let value = explanation.value.map { secrets.masked($0, at: explanation.path) }
        self.init(
            path: explanation.path.description, namespace: namespace.name, revision: explanation.revision,
            epoch: namespace.publication.epoch, value: value?.0, winner: explanation.winner?.rawValue,
            isMasked: value?.1 ?? false,
            lock: explanation.lock.map {
                ConfigExplain.Lock(path: $0.path.description, file: $0.file, line: $0.line, settings: $0.settings)
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
            peer: source.peer.map(WirePeer.init),
            expiresAt: source.expiresAt.map(Timestamp.init(milliseconds:)))
    }
}

extension WirePeer {
    /// The peer as provenance remembers it, in the protocol's words.
    init(_ peer: Peer) { self.init(pid: peer.pid, uid: peer.uid, command: peer.command) }
}
