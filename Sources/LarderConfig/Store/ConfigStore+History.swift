package import LarderConfigModel
import LarderConfigStorage
package import LarderJSON
import LarderPlatform
import LarderUpstream

/// One of the newest snapshots, as the history tells of it.
package struct PastSnapshot: Sendable {
    package var revision: Int
    /// SHA-256 of its compact text, in lower-case hex.
    package var digest: String
    /// The length of that text.
    package var bytes: Int
    /// When it was published, in milliseconds since 1970.
    package var publishedAt: Int
    /// The upstream version of the remote document that it was published with, where it had one.
    package var upstreamVersion: String?
    /// What it was published for; empty where an older version of this program published it.
    package var causes: [ChangeCause]
    /// Whether it is kept until it is unpinned.
    package var isPinned = false
}

/// Where the generations are that came before the start.
enum OlderGenerations {
    /// On disk, in these files, newest first.
    case inFiles([String])
    /// Somebody asked, and it is waited for the disk.
    case beingRead(Task<[Generation], Never>)
    case inHistory
}

/// What was: the newest snapshots, and the way back to one of them.
extension ConfigStore {
    /// The snapshots that are known, newest first.
    package func pastSnapshots() async -> [PastSnapshot] {
        await readOlderGenerations()
        let newest = history.generations
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
        if revision == snapshot.revision, revision > 0 { return snapshot.value }
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
            if history.isFull { return olderGenerations = .inHistory }
            let (archive, blocking, next) = (archive, blocking, history.oldest)
            reading = Task { await blocking.run { archive.generations(inFiles: names, before: next) } }
            olderGenerations = .beingRead(reading)
        }
        let older = await reading.value
        // Of those who waited together, the first has added them.
        guard case .beingRead = olderGenerations else { return }
        olderGenerations = .inHistory
        history.prepend(older)
    }

    /// What the layers have at a path, and since when.
    func provenance(of path: [String]) async -> PathProvenance {
        await readOlderGenerations()
        return await PathProvenance.find(path, in: snapshot, of: layers, after: history.generations)
    }

    /// One of the snapshots that ``pastSnapshots()`` has. More may be in memory than the limits keep.
    func generation(ofRevision revision: Int) async throws(ConfigError) -> Generation {
        if history[revision] == nil { await readOlderGenerations() }
        if await keptFiles().contains(where: { $0.revision == revision }) {
            if let generation = history[revision] { return generation }
            let archive = archive
            if let generation = await blocking.run({ archive.generation(ofRevision: revision) }) { return generation }
        }
        let known = await pastSnapshots().reversed().map { String($0.revision) }.joined(separator: ", ")
        throw ConfigError(
            .notFound,
            "revision \(revision) of namespace \"\(publication.namespace)\" is not known, or no longer; known are: "
                + (known.isEmpty ? "none, since nothing was published yet" : known))
    }
}

extension Layers {
    @concurrent
    fileprivate func resolvedConcurrently() async -> JSONValue { resolved() }
}
