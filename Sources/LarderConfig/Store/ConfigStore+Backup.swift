package import LarderConfigModel
import LarderConfigStorage

/// A snapshot as a file of the state directory.
package struct SavedGeneration: Sendable {
    package var revision: Int
    /// The content of the file; nil as long as nothing was published.
    package var text: String?
    /// The revisions of the history, newest first.
    package var revisions: [Int]
    package var isPinned = false
}

extension ConfigStore {
    /// One of the snapshots of the history for a backup. A state directory that has it alone begins with it: the journal and the
    /// reserved revisions of this one do not count there.
    /// - Parameter revision: nil for the current one, with every change that was acknowledged before the call
    /// - Throws: `notFound`, naming those that are known.
    package func savedGeneration(ofRevision revision: Int?) async throws(ConfigError) -> SavedGeneration {
        let known = await pastSnapshots()
        if snapshot.revision == 0 { return SavedGeneration(revision: 0, revisions: []) }
        var generation = currentGeneration
        if let revision, revision != snapshot.revision { generation = try await self.generation(ofRevision: revision) }
        generation.journalSequence = 0
        generation.released = 0
        let text = await Self.text(of: generation, epoch: archive.epoch, namespace: archive.namespace)
        return SavedGeneration(
            revision: generation.revision, text: text, revisions: known.map(\.revision),
            isPinned: known.contains { $0.revision == generation.revision && $0.isPinned })
    }

    @concurrent
    private static func text(of generation: Generation, epoch: String, namespace: String) async -> String {
        String(decoding: GenerationFile.encode(generation, epoch: epoch, namespace: namespace), as: UTF8.self)
    }
}
