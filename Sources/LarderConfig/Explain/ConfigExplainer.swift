import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform

/// Finds the source of the value that each layer has at a path.
struct ConfigExplainer: Sendable {
    let configuration: NamespaceConfiguration
    /// The remote source; nil for none. If the source is a key-value store, it provides the key from which the value at
    /// a path comes.
    let source: (any ConfigSource)?
    let blocking: BlockingThreadPool

    func explain(_ path: [String], _ provenance: PathProvenance) async -> ConfigExplanation {
        let locations = await locations(of: path, provenance)
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
            if let location = locations[layer] { (source.file, source.line) = (location.file, location.line) }
            explained.source = source
            return explained
        }
        let lock = provenance.layers.rules.locks.lock(on: path)
        let affecting = layers.filter { $0.value != nil || $0.hides }.map(\.layer)
        return ConfigExplanation(
            path: JSONPath(path), revision: provenance.revision, value: provenance.value,
            winner: affecting.last { lock == nil || $0.fileLayer != nil },
            lock: await self.lock(lock, provenance.layers), layers: layers)
    }

    /// Whether a rollback holds a layer's content at a path. The experiment layer itself is never held. It counts as
    /// held if its overlay at the path comes from a held remote document.
    private func isHeld(_ layer: ConfigLayer, at path: [String], _ provenance: PathProvenance) -> Bool {
        guard let hold = provenance.hold else { return false }
        guard layer == .experiment else { return hold.holds(layer) }
        return hold.holds(.remote) && provenance.layers.experiment.overlay(at: path)?.isRemote ?? false
    }

    // MARK: Sources

    private func origin(of layer: ConfigLayer, at path: [String], _ layers: Layers) -> ConfigExplanation.Source {
        switch layer {
        case .defaults, .host:
            let location = layer.fileLayer.flatMap(configuration.location)
            return ConfigExplanation.Source(kind: "file", location: location)
        case .remote: return remote(layers.remote, at: path)
        case .experiment:
            let overlay = layers.experiment.overlay(at: path)
            var source =
                overlay?.isRemote ?? false
                ? remote(layers.remote, at: [layers.remote?.experiments?.member].compactMap(\.self))
                : ConfigExplanation.Source(kind: "settings", file: configuration.settingsPath)
            source.experiment = overlay?.name
            return source
        case .override:
            let entry = layers.override.entries(around: path).last { $0.effect(at: path) != .unchanged }
            return ConfigExplanation.Source(
                kind: "set", peer: entry?.setBy, reason: entry?.reason, expiresAt: entry?.expiresAt)
        }
    }

    private func remote(_ remote: RemoteDocument?, at path: [String]) -> ConfigExplanation.Source {
        var source = ConfigExplanation.Source(
            kind: "push", location: remote?.origin, version: remote?.version?.text, peer: remote?.pushedBy,
            reason: remote?.reason)
        guard let remote, remote.origin != SourceOrigin.push else {
            source.location = nil
            return source
        }
        source.kind = configuration.remote?.kind ?? "http"
        if configuration.remote?.identity == remote.source { source.key = self.source?.key(of: path) }
        return source
    }

    // MARK: Files

    /// The file and line of the value at a path, for each layer that is read from files.
    private func locations(
        of path: [String], _ provenance: PathProvenance
    ) async -> [ConfigLayer: SourceLocation] {
        await blocking.run { () -> [ConfigLayer: SourceLocation] in
            var locations: [ConfigLayer: SourceLocation] = [:]
            for layer in FileLayer.allCases where provenance.effect(of: layer.layer) != .unchanged {
                locations[layer.layer] = configuration.sourceLocation(
                    of: path, in: layer, effect: provenance.effect(of: layer.layer))
            }
            if provenance.effect(of: .remote) != .unchanged {
                locations[.remote] = configuration.sourceLocation(
                    ofRemote: path, from: provenance.layers.remote?.origin, effect: provenance.effect(of: .remote))
            }
            return locations
        }
    }

    // MARK: Locks

    /// Describes the lock on the path `locked`. The file and line in the description are those of the locked value, in
    /// the highest file layer that has an effect at the path.
    private func lock(_ locked: JSONPath?, _ layers: Layers) async -> ConfigExplanation.Lock? {
        guard let locked else { return nil }
        var lock = ConfigExplanation.Lock(path: locked, settings: configuration.settingsPath)
        let path = locked.segments
        if let layer = FileLayer.allCases.last(where: { layers.effect(of: $0.layer, at: path) != .unchanged }) {
            let location = await blocking.run { () -> SourceLocation? in
                configuration.sourceLocation(
                    of: path, in: layer, effect: layers.effect(of: layer.layer, at: path))
            }
            lock.file = location?.file ?? configuration.location(of: layer)
            lock.line = location?.line
        }
        return lock
    }

    /// The error for a client that tries to change a locked path.
    /// - Parameter locked: the locked path
    func refusal(_ locked: JSONPath, _ layers: Layers) async -> ConfigError {
        let lock = await self.lock(locked, layers)
        let settings = lock?.settings ?? "the settings"
        guard let file = lock?.file else {
            return ConfigError(
                .locked,
                "\"\(locked)\" is locked in \(settings), and neither the defaults nor the host files have a value "
                    + "there; set it in one of these, or remove the lock")
        }
        let location = lock?.line.map { "\(file):\($0)" } ?? file
        return ConfigError(
            .locked,
            "\"\(locked)\" is locked in \(settings) to the value in \(location); change it there, or remove the lock")
    }
}

/// Finds the file and line of values that violate the schema.
struct ViolationLocator: Sendable {
    let configuration: NamespaceConfiguration
    let blocking: BlockingThreadPool

    /// Adds the file and line of each value that comes from a file. Reads the files.
    func located(_ problems: [SchemaProblem]) async -> [SchemaProblem] {
        if problems.allSatisfy({ $0.layer == nil || $0.layer == .override }) { return problems }
        return await blocking.run { () -> [SchemaProblem] in problems.map(configuration.located) }
    }
}

extension NamespaceConfiguration {
    /// Adds the file and line of the value if it comes from a file. Blocks on disk I/O.
    func located(_ problem: SchemaProblem) -> SchemaProblem {
        var problem = problem
        let path = problem.path.segments
        var found: SourceLocation?
        switch problem.layer {
        case .defaults, .host:
            guard let layer = problem.layer?.fileLayer else { break }
            problem.location = location(of: layer)
            found = sourceLocation(of: path, in: layer, effect: nil)
        case .remote: found = sourceLocation(ofRemote: path, from: problem.location, effect: nil)
        case .experiment: problem.location = problem.location ?? settingsPath
        case .override, nil: break
        }
        if let found { (problem.location, problem.line) = (found.file, found.line) }
        return problem
    }

    /// Searches the files of a layer for the value at a path. Blocks on disk I/O.
    /// - Parameter effect: the known effect of the layer at the path; nil for an unknown effect
    func sourceLocation(of path: [String], in layer: FileLayer, effect: PatchEffect?) -> SourceLocation? {
        guard let location = location(of: layer) else { return nil }
        return SourceLocation.find(path, in: location, maximumBytes: maximumBytes, effect: effect) {
            FileLayerReader.merge($0, keepsNulls: keepsNulls(layer))
        }
    }

    /// Searches the file of the remote source for the value at a path. Blocks on disk I/O.
    /// - Parameters:
    ///   - origin: the location from which the document was read; nil for a pushed document
    ///   - effect: the known effect of the document at the path; nil for an unknown effect
    func sourceLocation(ofRemote path: [String], from origin: String?, effect: PatchEffect?) -> SourceLocation? {
        guard case .file(let file) = remote, origin.isSpelled(as: file.path) else { return nil }
        return SourceLocation.find(path, in: file.path, maximumBytes: file.maximumBytes, effect: effect) {
            FileLayerReader.merge($0, keepsNulls: true)
        }
    }
}
