package import LarderConfigModel
import LarderConfigStorage
package import LarderJSON
import LarderPlatform

/// The history of a namespace at one point in time: the newest snapshots in memory, and older ones that are only on
/// disk. The history limits decide which of them are kept.
package struct SnapshotHistory: Sendable {
    let publication: ConfigPublication
    /// The newest snapshots, oldest first.
    let newest: [Generation]
    /// The current snapshot; nil if nothing was published.
    let current: Generation?
    let storage: NamespaceStorage
    let archived: ArchivedSnapshots

    /// The kept snapshots, newest first.
    /// - Parameter limit: the maximum number of snapshots. The others are not read or described, except that either all
    ///   snapshots that are only on disk are read, or none.
    package func snapshots(limit: Int = .max) async -> [PastSnapshot] {
        let files = await keptFiles()
        let kept = Set(files.map(\.revision))
        let recent = newest.reversed().lazy.filter { kept.contains($0.revision) }.prefix(limit)
        var snapshots = await PastSnapshot.describe(Array(recent))
        if snapshots.count < limit {
            let oldest = newest.first?.revision ?? 0
            let older = await archived.snapshots(ofRevisions: files.map(\.revision).filter { $0 < oldest })
            snapshots += older.prefix(limit - snapshots.count)
        }
        let pinned = Set(files.lazy.filter(\.isPinned).map(\.revision))
        for index in snapshots.indices { snapshots[index].isPinned = pinned.contains(snapshots[index].revision) }
        return snapshots
    }

    /// The value of a kept snapshot.
    /// - Throws: `notFound`, naming the revisions that are known.
    package func value(ofRevision revision: Int) async throws(ConfigError) -> JSONValue {
        if revision == current?.revision, let snapshot = publication.recent(revision: revision) {
            return snapshot.value
        }
        let generation = try await generation(ofRevision: revision)
        if let snapshot = publication.recent(revision: revision) { return snapshot.value }
        return await generation.layers.resolvedConcurrently()
    }

    /// An estimate of the memory of kept snapshots with their layers, in bytes. It is an upper bound except for the
    /// snapshots that are only on disk, whose text rarely takes more than ten times its size when it is parsed.
    package func copiedBytes(ofRevisions revisions: Set<Int>) async -> Int {
        var bytes = 0
        var others = revisions
        for generation in newest where others.remove(generation.revision) != nil {
            bytes += generation.layers.copiedBytes + 2 * (generation.bytes ?? generation.layers.copiedBytes)
        }
        if others.isEmpty { return bytes }
        return await keptFiles().reduce(bytes) { others.contains($1.revision) ? $0 + 10 * $1.bytes : $0 }
    }

    /// A kept snapshot. Snapshots that are still in memory but no longer kept are not found.
    /// - Throws: `notFound`, naming the revisions that are known.
    func generation(ofRevision revision: Int) async throws(ConfigError) -> Generation {
        if await keptFiles().contains(where: { $0.revision == revision }) {
            if let generation = newest.last(where: { $0.revision == revision }) { return generation }
            if let generation = await storage.generations(ofRevisions: [revision]).first { return generation }
        }
        let known = await snapshots().reversed().map { String($0.revision) }.joined(separator: ", ")
        throw ConfigError(
            .notFound,
            "revision \(revision) of namespace \"\(publication.namespace)\" is not in the history; known revisions: "
                + (known.isEmpty ? "none, because nothing has been published yet" : known))
    }

    /// The newest kept snapshots, oldest first: as many as a running agent has in memory. After a start, those from
    /// before it are read from disk.
    func generations() async -> [Generation] {
        let missing = GenerationHistory.capacity - newest.count
        let oldest = newest.first?.revision ?? 0
        let older = await keptFiles().map(\.revision).filter { $0 < oldest }.prefix(missing)
        return await storage.generations(ofRevisions: Array(older)).reversed() + newest
    }

    /// Pins or unpins a snapshot. A pinned snapshot is kept regardless of its age and of the number of newer ones.
    /// - Returns: whether anything changed
    /// - Throws: `notFound`, naming the revisions that are known; `rejected` if the pinned snapshots would take more
    ///   than half of ``HistoryLimits/maximumBytes``; `storageFailed`.
    package func pin(_ isPinned: Bool, revision: Int) async throws(ConfigError) -> Bool {
        var generation = try await generation(ofRevision: revision)
        if let current, current.revision == revision { generation = current }
        let result: GenerationDirectory.PinResult
        do throws(FileError) {
            result = try await storage.pin(isPinned, generation)
        } catch {
            throw ConfigError(
                .storageFailed, "\(error); nothing was changed; free space or repair the disk, then retry")
        }
        switch result {
        case .changed: return true
        case .unchanged: return false
        case .tooLarge(let bytes, let limit):
            throw ConfigError(
                .rejected,
                "with revision \(revision) the pinned snapshots would take \(bytes) bytes, more than \(limit) (half of "
                    + "history.maximumBytes); unpin another snapshot, or raise that setting")
        }
    }

    /// Encodes a snapshot as a file for a backup. An agent must be able to start from a state directory that contains
    /// only this file. Therefore the file does not refer to the journal and the reserved revisions of the current
    /// directory.
    /// - Parameter revision: nil for the current one
    /// - Throws: `notFound`, naming the revisions that are known.
    package func saved(revision: Int?) async throws(ConfigError) -> SavedGeneration {
        guard var generation = current else { return SavedGeneration(revision: 0, revisions: []) }
        if let revision, revision != generation.revision {
            generation = try await self.generation(ofRevision: revision)
        }
        let kept = await keptFiles()
        return SavedGeneration(
            revision: generation.revision, text: await storage.text(of: generation.withoutJournal()),
            revisions: kept.map(\.revision),
            isPinned: kept.contains { $0.revision == generation.revision && $0.isPinned })
    }

    /// The kept snapshots, newest first. Under an epoch that ends with the process, snapshots from before the start are
    /// left out.
    private func keptFiles() async -> [HistoryLimits.File] {
        let files = newest.reversed().map {
            HistoryLimits.File(revision: $0.revision, publishedAt: $0.publishedAt, bytes: $0.bytes ?? 0)
        }
        return publication.epoch == storage.epoch ? await storage.kept(with: files) : files
    }
}

/// A cache of descriptions of the snapshots that are only on disk, so that their files are not read for each request.
actor ArchivedSnapshots {
    private let storage: NamespaceStorage
    private var known: [Int: PastSnapshot] = [:]

    init(storage: NamespaceStorage) { self.storage = storage }

    /// Describes the snapshots of these revisions, and removes all other descriptions from the cache. Calls may overlap
    /// and ask for different revisions, so each call works on its own copy of the cache (``known``).
    func snapshots(ofRevisions revisions: [Int]) async -> [PastSnapshot] {
        var known = known
        let found = await storage.generations(ofRevisions: revisions.filter { known[$0] == nil })
        for snapshot in await PastSnapshot.describe(found) { known[snapshot.revision] = snapshot }
        let snapshots = revisions.compactMap { known[$0] }
        self.known = Dictionary(snapshots.map { ($0.revision, $0) }) { first, _ in first }
        return snapshots
    }
}

/// A snapshot encoded as a file of the state directory.
package struct SavedGeneration: Sendable {
    package var revision: Int
    /// The content of the file; nil if nothing was published.
    package var text: String?
    /// The revisions of the history, newest first. A backup of one of them may fail if its file is damaged.
    package var revisions: [Int]
    package var isPinned = false
}
