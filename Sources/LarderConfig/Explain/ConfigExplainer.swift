public import LarderJSON
import LarderPlatform
import LarderUpstream

/// Finds out where layers have from what they say.
struct ConfigExplainer: Sendable {
    let configuration: NamespaceConfiguration
    /// The remote source, which may know more than its settings.
    let source: (any ConfigSource)?
    let blocking: BlockingWork

    func explain(_ path: [String], _ testimony: ConfigStore.Testimony) async -> ConfigExplanation {
        let places = await places(of: path, testimony)
        let layers = ConfigLayer.allCases.map { layer in
            var explained = ConfigExplanation.Layer(layer: layer, hides: false)
            if isHeld(layer, at: path, testimony) { explained.heldRevision = testimony.hold?.revision }
            switch testimony.effect(of: layer) {
            case .unchanged: return explained
            case .removed: explained.hides = true
            case .value(let value): explained.value = value
            }
            explained.since = testimony.since(layer)
            var source = origin(of: layer, at: path, testimony.layers)
            if let place = places[layer] { (source.file, source.line) = (place.file, place.line) }
            explained.source = source
            return explained
        }
        let lock = testimony.layers.rules.locks.lock(on: path)
        let speakers = layers.filter { $0.value != nil || $0.hides }.map(\.layer)
        return ConfigExplanation(
            path: JSONPath(path), revision: testimony.revision, value: testimony.value,
            winner: speakers.last { lock == nil || $0.isOfFiles }, lock: await pin(lock, testimony.layers),
            layers: layers)
    }

    /// Whether a rollback shows what a layer says at a path instead of what it says now.
    private func isHeld(_ layer: ConfigLayer, at path: [String], _ testimony: ConfigStore.Testimony) -> Bool {
        guard let hold = testimony.hold else { return false }
        guard layer == .experiment else { return hold.holds(layer) }
        return hold.holds(.remote) && overlay(at: path, testimony.layers)?.isRemote ?? false
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

    private func remote(_ remote: Layers.Remote?, at path: [String]) -> ConfigExplanation.Source {
        var source = ConfigExplanation.Source(
            kind: "push", location: remote?.origin, version: remote?.version?.text, peer: remote?.pushedBy)
        guard let remote, remote.origin != pushOrigin else {
            source.location = nil
            return source
        }
        source.kind = configuration.source?.kind ?? "http"
        if configuration.source?.location == remote.origin { source.key = self.source?.key(of: path) }
        return source
    }

    // MARK: Files

    /// The files and lines in which layers that come from files say something at a path.
    private func places(
        of path: [String], _ testimony: ConfigStore.Testimony
    ) async -> [ConfigLayer: FilePlace] {
        await blocking.run { () -> [ConfigLayer: FilePlace] in
            var places: [ConfigLayer: FilePlace] = [:]
            for layer in FileLayer.allCases where testimony.effect(of: layer.layer) != .unchanged {
                places[layer.layer] = filePlace(of: path, in: layer, saying: testimony.effect(of: layer.layer))
            }
            if case .file(let file) = configuration.remote, testimony.layers.remote?.origin == file.path,
                testimony.effect(of: .remote) != .unchanged
            {
                places[.remote] = FilePlace.find(
                    path, in: file.path, maximumBytes: file.maximumBytes, saying: testimony.effect(of: .remote)
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

extension ConfigNamespace {
    /// Explains what is at a path. It reads the layers' files to find the lines.
    public func explain(_ path: JSONPath) async -> ConfigExplanation {
        await explainer.explain(path.segments, store.testimony(of: path.segments))
    }

    /// Hands over a value for the override layer, as ``ConfigStore/set(_:to:timeToLive:by:on:then:)``; that a path is locked is
    /// told with the file and line that pin it.
    public func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<ConfigStore.Commit, ConfigError>) -> Void
    ) -> ChangeHandle {
        store.set(path, to: value, timeToLive: timeToLive, by: peer, on: executor) { result in
            guard case .failure(let error) = result, error.code == .locked else { return completion(result) }
            Task { completion(.failure(await self.refusal(of: value, at: path) ?? error)) }
        }
    }

    private func refusal(of value: JSONValue, at path: JSONPath) async -> ConfigError? {
        let layers = await store.layers.shown
        guard let locked = layers.rules.locks.touched(by: value, at: path.segments) else { return nil }
        return await explainer.refusal(locked, layers)
    }
}

/// Where in files a value stands.
struct FilePlace: Sendable, Hashable {
    var file: String
    /// From 1.
    var line: Int

    /// Looks through the files that a layer was made of. Blocks until the disk has answered.
    ///
    /// - Parameters:
    ///   - saying: what the layer says at the path
    ///   - merge: makes the layer's document of the files'
    /// - Returns: the last file that has a say at the path, which is the one that counts; nil where none has, or where the
    ///   files cannot be read or say something else by now
    static func find(
        _ path: [String], in location: String, maximumBytes: Int, saying: PatchEffect,
        merge: ([JSONValue]) -> ComposedPatch
    ) -> FilePlace? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), merge(documents).effect(at: path) == saying
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.effect(at: path) != .unchanged {
            return FilePlace(file: file.path, line: DocumentFiles.line(of: JSONPath(path), in: file, document))
        }
        return nil
    }
}
