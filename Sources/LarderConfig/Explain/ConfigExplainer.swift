import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform
import LarderUpstream

/// Finds out where layers have from what they say.
struct ConfigExplainer: Sendable {
    let configuration: NamespaceConfiguration
    /// The remote source, which may know more than its settings.
    let source: (any ConfigSource)?
    let blocking: BlockingWork

    func explain(_ path: [String], _ provenance: PathProvenance) async -> ConfigExplanation {
        let places = await places(of: path, provenance)
        let layers = ConfigLayer.allCases.map { layer in
            var explained = ConfigExplanation.Layer(layer: layer, hides: false)
            if isHeld(layer, at: path, provenance) { explained.heldRevision = provenance.hold?.revision }
            switch provenance.effect(of: layer) {
            case .unchanged: return explained
            case .removed: explained.hides = true
            case .value(let value): explained.value = value
            }
            explained.since = provenance.since(layer)
            var source = origin(of: layer, at: path, provenance.layers)
            if let place = places[layer] { (source.file, source.line) = (place.file, place.line) }
            explained.source = source
            return explained
        }
        let lock = provenance.layers.rules.locks.lock(on: path)
        let speakers = layers.filter { $0.value != nil || $0.hides }.map(\.layer)
        return ConfigExplanation(
            path: JSONPath(path), revision: provenance.revision, value: provenance.value,
            winner: speakers.last { lock == nil || $0.isOfFiles }, lock: await pin(lock, provenance.layers),
            layers: layers)
    }

    /// Whether a rollback shows what a layer says at a path instead of what it says now.
    private func isHeld(_ layer: ConfigLayer, at path: [String], _ provenance: PathProvenance) -> Bool {
        guard let hold = provenance.hold else { return false }
        guard layer == .experiment else { return hold.holds(layer) }
        return hold.holds(.remote) && overlay(at: path, provenance.layers)?.isRemote ?? false
    }

    // MARK: Sources

    /// The experiment that has the last say at a path.
    private func overlay(at path: [String], _ layers: Layers) -> ExperimentLayer.Overlay? {
        layers.experiment.overlays.last { $0.values.effect(at: path) != .unchanged }
    }

    private func origin(of layer: ConfigLayer, at path: [String], _ layers: Layers) -> ConfigExplanation.Source {
        switch layer {
        case .defaults: return ConfigExplanation.Source(kind: "file", location: configuration.defaultsPath)
        case .host: return ConfigExplanation.Source(kind: "file", location: configuration.hostDirectory)
        case .remote: return remote(layers.remote, at: path)
        case .experiment:
            let overlay = overlay(at: path, layers)
            var source =
                overlay?.isRemote ?? false
                ? remote(layers.remote, at: [layers.remote?.experiments?.member].compactMap(\.self))
                : ConfigExplanation.Source(kind: "settings", file: configuration.settingsPath)
            source.experiment = overlay?.name
            return source
        case .override:
            let entry = layers.override.entries(around: path).last { $0.effect(at: path) != .unchanged }
            return ConfigExplanation.Source(kind: "set", peer: entry?.setBy, expiresAt: entry?.expiresAt)
        }
    }

    private func remote(_ remote: RemoteDocument?, at path: [String]) -> ConfigExplanation.Source {
        var source = ConfigExplanation.Source(
            kind: "push", location: remote?.origin, version: remote?.version?.text, peer: remote?.pushedBy)
        guard let remote, remote.origin != SourceOrigin.push else {
            source.location = nil
            return source
        }
        source.kind = configuration.remote?.kind ?? "http"
        if configuration.remote?.location == remote.origin { source.key = self.source?.key(of: path) }
        return source
    }

    // MARK: Files

    /// The files and lines in which layers that come from files say something at a path.
    private func places(
        of path: [String], _ provenance: PathProvenance
    ) async -> [ConfigLayer: FilePlace] {
        await blocking.run { () -> [ConfigLayer: FilePlace] in
            var places: [ConfigLayer: FilePlace] = [:]
            for layer in FileLayer.allCases where provenance.effect(of: layer.layer) != .unchanged {
                places[layer.layer] = filePlace(of: path, in: layer, saying: provenance.effect(of: layer.layer))
            }
            if case .file(let file) = configuration.remote, provenance.layers.remote?.origin == file.path,
                provenance.effect(of: .remote) != .unchanged
            {
                places[.remote] = FilePlace.find(
                    path, in: file.path, maximumBytes: file.maximumBytes, saying: provenance.effect(of: .remote)
                ) { FileLayerReader.merge($0, keepsNulls: true) }
            }
            return places
        }
    }

    private func filePlace(of path: [String], in layer: FileLayer, saying: PatchEffect) -> FilePlace? {
        guard let location = configuration.location(of: layer) else { return nil }
        return FilePlace.find(path, in: location, maximumBytes: configuration.maximumBytes, saying: saying) {
            FileLayerReader.merge($0, keepsNulls: configuration.keepsNulls(layer))
        }
    }

    // MARK: Locks

    /// What pins a locked path: the highest layer of files with a say there.
    private func pin(_ locked: JSONPath?, _ layers: Layers) async -> ConfigExplanation.Lock? {
        guard let locked else { return nil }
        var lock = ConfigExplanation.Lock(path: locked, settings: configuration.settingsPath)
        let path = locked.segments
        if let layer = FileLayer.allCases.last(where: { layers.effect(of: $0.layer, at: path) != .unchanged }) {
            let place = await blocking.run { () -> FilePlace? in
                filePlace(of: path, in: layer, saying: layers.effect(of: layer.layer, at: path))
            }
            lock.file = place?.file ?? configuration.location(of: layer)
            lock.line = place?.line
        }
        return lock
    }

    /// Why a client's change at a path is refused.
    /// - Parameter locked: what it would touch
    func refusal(_ locked: JSONPath, _ layers: Layers) async -> ConfigError {
        let lock = await pin(locked, layers)
        let settings = lock?.settings ?? "the settings"
        guard let file = lock?.file else {
            return ConfigError(
                .locked,
                "\(locked) is locked in \(settings), and stays absent because neither defaults nor host files say "
                    + "anything there; set it in one of these, or unlock it")
        }
        let place = lock?.line.map { "\(file):\($0)" } ?? file
        return ConfigError(
            .locked, "\(locked) is locked in \(settings) to what \(place) says; change it there, or unlock it")
    }
}
