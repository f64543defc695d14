package import LarderConfigModel

/// The state of a namespace as read from disk at the start of the agent.
package struct RecoveredState: Sendable {
    package var layers = Layers()
    /// The newest snapshots that are known with certainty: the newest intact generation and those that the journal adds
    /// to it. Older snapshots are not read at the start.
    package var history = GenerationHistory()
    /// The snapshots of ``history`` that are only in the journal.
    package var unwritten: [Generation] = []
    /// The revision of the last snapshot whose changes are in the layers; 0 for none.
    package var revision = 0
    /// The digest of the resolved layers, as recorded on disk.
    package var digest = ""
    /// In milliseconds since 1970.
    package var publishedAt = 0
    /// Why ``revision`` was published, as far as recorded.
    package var causes: [ChangeCause] = []
    /// The sequence number of the last journal record whose changes are in the layers.
    package var journalSequence = 0
    /// The highest bound (last reserved revision) that was ever reserved.
    package var reservedBound = 0
    /// Reservations up to this bound are settled: none of the reserved revisions above ``revision`` was published.
    package var released = 0
    /// The highest revision in the name of a generation file, readable or not.
    var highestName = 0

    /// The highest revision that a lost record may have had.
    package var highestPossiblyPublished = 0

    /// The highest revision that a client may have seen although its content is lost.
    package var highestSeen: Int {
        max(highestName, highestPossiblyPublished, reservedBound > released ? reservedBound : 0)
    }

    /// The numbers from which numbering continues.
    package var numbers: RevisionNumbering.Recovered {
        RevisionNumbering.Recovered(
            revision: revision, journalSequence: journalSequence, reservedBound: reservedBound, settledBound: released,
            highestNamed: max(highestName, highestPossiblyPublished))
    }

    /// Sets the state to that of the newest generation.
    mutating func begin(with generation: Generation) {
        history.append(generation)
        layers = generation.layers
        revision = generation.revision
        digest = generation.digest.text
        publishedAt = generation.publishedAt
        causes = generation.causes
        journalSequence = generation.journalSequence
        released = generation.released
    }

    /// Applies the journal records that the newest generation does not contain.
    mutating func replay(_ journal: JournalReader) {
        var snapshots = GenerationHistory()
        for record in journal.records {
            for operation in record.operations { operation.apply(to: &layers) }
            if record.revision != revision { causes = record.causes }
            revision = record.revision
            digest = record.digest
            publishedAt = record.publishedAt
            journalSequence = record.sequence
            released = record.released
            snapshots.append(
                Generation(
                    revision: revision, digest: SnapshotDigest(known: digest), publishedAt: publishedAt,
                    journalSequence: journalSequence, released: released, causes: causes, layers: layers))
        }
        if case .clean = journal.ending {
        } else {
            highestPossiblyPublished = max(revision, reservedBound) + journal.lost
        }
        // Documents of sources are not in the journal. If such a document changed before a record was written, the
        // replayed layers do not resolve to the digest of that record, and its snapshot is left out.
        unwritten = snapshots.generations.compactMap { generation in
            guard generation.layers.resolve(to: generation.digest.text) else { return nil }
            let published = generation.published.flatMap { $0.resolve(to: generation.digest.text) ? $0 : nil }
            return generation.with(generation.layers, published: published)
        }
    }

    /// Ends a rollout that an earlier version of this program began, so that all clients get the live remote document;
    /// see ``HoldRule/rollout``. If clients have seen that document, the reservation of its revision is not settled,
    /// so the document gets a higher revision.
    mutating func endRollout() {
        if layers.holdRule == .rollout { layers.hold = nil }
    }

    /// Moves the numbering far ahead, because the state was written in another epoch. Since it was written, later
    /// revisions may have been assigned to content that this directory does not record, and not every client sends the
    /// epoch of the revision from which it resumes.
    mutating func skipUnknownRevisions() {
        highestPossiblyPublished = max(revision, highestSeen, reservedBound) + RevisionReservation.unknownRevisions
    }
}

extension Layers {
    fileprivate func resolve(to digest: String) -> Bool { SnapshotDigest.text(of: resolved()) == digest }
}
