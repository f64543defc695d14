package import LarderConfigModel
import LarderConfigStorage
import LarderPlatform
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

    /// Describes snapshots; those that no call described before are read. Calls may overlap and ask for different ones, so each
    /// works on its own copy of what is described.
    /// - Parameter revisions: all that are on disk alone.
    func archivedSnapshots(ofRevisions revisions: [Int]) async -> [PastSnapshot] {
        let archive = archive
        var known = archivedSnapshots
        let unread = revisions.filter { known[$0] == nil }
        let found = await blocking.run { unread.compactMap { archive.generation(ofRevision: $0) } }
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
