import LarderConfigModel
package import LarderPlatform
package import Logging

/// The files of a namespace's state and the types that own them:
///
/// - `generations/<revision>.json` and `pinned`: ``GenerationDirectory``
/// - `journal`: ``Journal``
/// - `reserved`: ``RevisionReservation``
package struct ConfigArchive: Sendable {
    package let namespace: String
    package let epoch: String
    package let generations: GenerationDirectory
    package let journal: Journal
    package let reservation: RevisionReservation

    /// - Parameter directory: the directory of the namespace
    package init(namespace: String, epoch: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        self.epoch = epoch
        generations = GenerationDirectory(
            namespace: namespace, epoch: epoch, directory: directory, files: files, logger: logger)
        journal = Journal(namespace: namespace, directory: directory, files: files, logger: logger)
        reservation = RevisionReservation(namespace: namespace, directory: directory, files: files, logger: logger)
    }

    /// Reads the newest intact state. A damaged generation is renamed to `….damaged`, and the next older one is used.
    /// Blocks on disk I/O.
    package func restore() throws(FileError) -> RecoveredState {
        var names = try generations.open()
        var state = RecoveredState()
        // A file named after a revision shows that the revision was published, even if the content of the file is lost.
        state.highestName = names.lazy.compactMap(GenerationDirectory.revision).max() ?? 0
        state.reservedBound = try reservation.bound(after: state.highestName)
        names.removeAll { !$0.hasSuffix(".json") || GenerationDirectory.revision(inName: $0) == nil }
        var older = names.sorted(by: >)[...]
        var newest: Generation?
        while newest == nil, let name = older.popFirst() { newest = try generations.load(name) }
        if let newest { state.begin(with: newest) }
        if let reader = try journal.read(after: state.journalSequence) { state.replay(reader) }
        if let written = newest?.epoch, written != epoch { state.skipUnknownRevisions() }
        for generation in state.unwritten { state.history.append(generation) }
        state.endRollout()
        return state
    }
}
