package import LarderConfigModel
import LarderConfigStorage
package import LarderJSON

/// What was: the newest snapshots, and the way back to one of them.
extension ConfigStore {
    /// The snapshots that are known, newest first.
    package func pastSnapshots() async -> [PastSnapshot] {
        await readOlderGenerations()
        let newest = core.history.generations
        let files = await keptFiles()
        let kept = Set(files.map(\.revision))
        let archived = files.map(\.revision).filter { $0 < newest.first?.revision ?? 0 }
        let older = await archivedSnapshots(ofRevisions: archived)
        var past = await Self.describe(newest.filter { kept.contains($0.revision) }) + older
        let pinned = Set(files.lazy.filter(\.isPinned).map(\.revision))
        for index in past.indices { past[index].isPinned = pinned.contains(past[index].revision) }
        return past
    }

    /// Digests, and sizes of what an older version wrote, have to be worked out.
    @concurrent
    static func describe(_ generations: [Generation]) async -> [PastSnapshot] {
        generations.reversed().map { generation in
            PastSnapshot(
                revision: generation.revision, digest: generation.digest.text,
                bytes: generation.bytes ?? generation.layers.resolved().textSize, publishedAt: generation.publishedAt,
                upstreamVersion: generation.publishedLayers.shown.remote?.version?.text, causes: generation.causes)
        }
    }

    /// The value of one of the newest snapshots.
    /// - Throws: `notFound`, naming those that are known.
    package func value(ofRevision revision: Int) async throws(ConfigError) -> JSONValue {
        if revision == core.snapshot.revision, revision > 0 { return core.snapshot.value }
        let generation = try await generation(ofRevision: revision)
        if let recent = publication.recent(revision: revision) { return recent.value }
        return await generation.layers.resolvedConcurrently()
    }

    /// Takes up the content of one of the newest snapshots again, as a new one. Its overrides are there for good. Where
    /// its documents differ from what the sources say now, they are held until ``release(by:)``, a forced refresh or push, or
    /// a document that ends the hold by its rule.
    /// - Parameter rule: nil for ``HoldRule/untilNewer`` if the versions of the source can be ordered, else
    ///   ``HoldRule/untilReleased``
    /// - Throws: `notFound`, naming the revisions that are known; `storageFailed`, `cancelled`, `stopped`.
    package func rollBack(
        toRevision revision: Int, hold rule: HoldRule? = nil, by peer: Peer?
    ) async throws(ConfigError) -> CommitOutcome {
        let generation = try await generation(ofRevision: revision)
        return try await commit(
            .rollback(to: generation.publishedLayers, revision: generation.revision, hold: rule, by: peer))
    }

    /// Shows what the sources say again, where a rollback holds something else.
    /// - Throws: `storageFailed`, `cancelled`, `stopped`.
    package func release(by peer: Peer?) async throws(ConfigError) -> CommitOutcome {
        try await commit(.release(by: peer))
    }

    /// Has the history tell of what came before the start, too. A start reads the newest generation alone, so that it is
    /// soon over; whoever asks for older ones waits for them, once.
    func readOlderGenerations() async {
        let reading: Task<[Generation], Never>
        switch olderGenerations {
        case .inHistory: return
        case .beingRead(let task): reading = task
        case .inFiles(let names):
            if core.history.isFull { return olderGenerations = .inHistory }
            let (storage, next) = (storage, core.history.oldest)
            reading = Task { await storage.generations(inFiles: names, before: next) }
            olderGenerations = .beingRead(reading)
        }
        let older = await reading.value
        // Of those who waited together, the first has added them.
        guard case .beingRead = olderGenerations else { return }
        olderGenerations = .inHistory
        core.prepend(older)
    }

    /// What the layers have at a path, and since when.
    func provenance(of path: [String]) async -> PathProvenance {
        await readOlderGenerations()
        return await PathProvenance.find(path, in: core.snapshot, of: core.layers, after: core.history.generations)
    }

    /// One of the snapshots that ``pastSnapshots()`` has. More may be in memory than the limits keep.
    func generation(ofRevision revision: Int) async throws(ConfigError) -> Generation {
        if core.history[revision] == nil { await readOlderGenerations() }
        if await keptFiles().contains(where: { $0.revision == revision }) {
            if let generation = core.history[revision] { return generation }
            if let generation = await storage.generations(ofRevisions: [revision]).first { return generation }
        }
        let known = await pastSnapshots().reversed().map { String($0.revision) }.joined(separator: ", ")
        throw ConfigError(
            .notFound,
            "revision \(revision) of namespace \"\(publication.namespace)\" is not known, or no longer; known are: "
                + (known.isEmpty ? "none, since nothing was published yet" : known))
    }

    // MARK: Snapshots on disk alone

    /// The snapshots that are kept, newest first; without those before the start under an epoch that ends with the process,
    /// because none of them has a number in it.
    func keptFiles() async -> [HistoryLimits.File] {
        let newest = core.history.generations.reversed().map {
            HistoryLimits.File(revision: $0.revision, publishedAt: $0.publishedAt, bytes: $0.bytes ?? 0)
        }
        if publication.epoch != storage.epoch { return newest }
        return await storage.kept(with: newest)
    }

    /// Describes snapshots; those that no call described before are read. Calls may overlap and ask for different ones, so each
    /// works on its own copy of what is described.
    /// - Parameter revisions: all that are on disk alone.
    func archivedSnapshots(ofRevisions revisions: [Int]) async -> [PastSnapshot] {
        var known = archivedSnapshots
        let found = await storage.generations(ofRevisions: revisions.filter { known[$0] == nil })
        for snapshot in await Self.describe(found) { known[snapshot.revision] = snapshot }
        let described = revisions.compactMap { known[$0] }
        archivedSnapshots = Dictionary(described.map { ($0.revision, $0) }) { first, _ in first }
        return described
    }

    /// Pins a snapshot, so that neither its age nor the number of newer ones removes it, or ends that.
    /// - Returns: whether that changes anything.
    /// - Throws: `notFound`, naming the revisions that are known; `rejected` if the pinned ones would take more than half of
    ///   ``HistoryLimits/maximumBytes``; `storageFailed`.
    package func pin(_ isPinned: Bool, revision: Int) async throws(ConfigError) -> Bool {
        var generation = try await generation(ofRevision: revision)
        if revision == core.snapshot.revision { generation = core.currentGeneration }
        let result: GenerationDirectory.PinResult
        do throws(FileError) {
            result = try await storage.pin(isPinned, generation)
        } catch {
            throw ConfigError(
                .storageFailed, "\(error); nothing was changed. Free space or repair the disk, then try again")
        }
        switch result {
        case .changed: return true
        case .unchanged: return false
        case .tooLarge(let bytes, let limit):
            throw ConfigError(
                .rejected,
                "with revision \(revision) the pinned snapshots would take \(bytes) bytes, and half of history.maximumBytes "
                    + "in the settings allows \(limit); unpin another one or raise that setting")
        }
    }

    // MARK: Backup

    /// One of the snapshots of the history for a backup. A state directory that has it alone begins with it: the journal and the
    /// reserved revisions of this one do not count there.
    /// - Parameter revision: nil for the current one, with every change that was acknowledged before the call
    /// - Throws: `notFound`, naming those that are known.
    package func savedGeneration(ofRevision revision: Int?) async throws(ConfigError) -> SavedGeneration {
        let known = await pastSnapshots()
        if core.snapshot.revision == 0 { return SavedGeneration(revision: 0, revisions: []) }
        var generation = core.currentGeneration
        if let revision, revision != core.snapshot.revision {
            generation = try await self.generation(ofRevision: revision)
        }
        let text = await storage.text(of: generation.withoutJournal())
        return SavedGeneration(
            revision: generation.revision, text: text, revisions: known.map(\.revision),
            isPinned: known.contains { $0.revision == generation.revision && $0.isPinned })
    }
}

extension Layers {
    @concurrent
    fileprivate func resolvedConcurrently() async -> JSONValue { resolved() }
}
