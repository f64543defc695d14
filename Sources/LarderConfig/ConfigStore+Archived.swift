import LarderUpstream

/// The snapshots that are on disk alone: those that are older than ``GenerationHistory`` has.
extension ConfigStore {
    /// The snapshots that are kept, newest first; without those before the start under an epoch that ends with the process,
    /// because none of them has a number in it.
    func keptFiles() async -> [HistoryLimits.File] {
        let newest = history.generations.reversed().map {
            HistoryLimits.File(revision: $0.revision, publishedAt: $0.publishedAt, bytes: $0.bytes ?? 0)
        }
        if publication.epoch != archive.epoch { return newest }
        let archive = archive
        return await blocking.run { archive.generationDirectory.kept(with: newest) }
    }

    /// Reads snapshots that were not described yet.
    /// - Parameter revisions: all that are on disk alone.
    func readArchived(_ revisions: [Int]) async {
        let archive = archive
        let unread = revisions.filter { archivedSnapshots[$0] == nil }
        let found = await blocking.run { unread.compactMap { archive.generation(ofRevision: $0) } }
        for snapshot in await Self.describe(found) { archivedSnapshots[snapshot.revision] = snapshot }
        let known = Set(revisions)
        archivedSnapshots = archivedSnapshots.filter { known.contains($0.key) }
    }

    /// A generation that is on disk alone; nil if there is none.
    func archivedGeneration(ofRevision revision: Int) async -> Generation? {
        guard await keptFiles().contains(where: { $0.revision == revision }) else { return nil }
        let archive = archive
        return await blocking.run { archive.generation(ofRevision: revision) }
    }

    /// Pins a snapshot, so that neither its age nor the number of newer ones removes it, or ends that.
    /// - Returns: whether that changes anything.
    /// - Throws: `notFound`, naming the revisions that are known; `rejected` if the pinned ones would take more than half of
    ///   ``HistoryLimits/maximumBytes``; `storageFailed`.
    public func pin(_ isPinned: Bool, revision: Int) async throws(ConfigError) -> Bool {
        var generation = try await generation(ofRevision: revision)
        if revision == snapshot.revision { generation = currentGeneration }
        let archive = archive
        let pinned = generation
        let result: GenerationDirectory.PinResult
        do throws(FileError) {
            result = try await blocking.run { () throws(FileError) in try archive.pin(isPinned, pinned) }
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
}
