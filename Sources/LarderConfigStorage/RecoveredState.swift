package import LarderConfigModel

/// What a start finds.
package struct RecoveredState: Sendable {
    package var layers = Layers()
    /// The newest snapshots that are known for certain, as far as they had to be read: the newest generation that is
    /// whole, and what the journal made of it.
    package var history = GenerationHistory()
    /// The files of the generations before it, newest first; see ``GenerationDirectory/generations(inFiles:before:)``.
    package var olderFiles: [String] = []
    /// Those of them that are in the journal only.
    package var unwritten: [Generation] = []
    /// The revision that the layers resolved to.
    package var revision = 0
    /// The digest that the layers had then.
    package var digest = ""
    /// In milliseconds since 1970.
    package var publishedAt = 0
    /// What they were published for, as far as that is on disk.
    package var causes: [ChangeCause] = []
    /// The last journal record contained.
    package var journalSequence = 0
    /// The highest bound that was ever reserved.
    package var reservedBound = 0
    /// Reservations up to this bound are settled.
    package var released = 0
    /// The highest number of a generation on disk, readable or not.
    var highestName = 0

    /// The highest number that a record which is lost may have carried.
    package var highestPossiblyPublished = 0

    /// The highest number that somebody may have seen although nothing with it is on disk.
    package var highestSeen: Int {
        max(highestName, highestPossiblyPublished, reservedBound > released ? reservedBound : 0)
    }

    /// The numbers with which the revisions go on.
    package var numbers: RevisionNumbering.Recovered {
        RevisionNumbering.Recovered(
            revision: revision, journalSequence: journalSequence, reservedBound: reservedBound, settledBound: released,
            highestNamed: max(highestName, highestPossiblyPublished))
    }

    /// Begins with the newest generation.
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

    /// Applies the records that follow.
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
        // The journal does not record what came from a source between two records.
        unwritten = snapshots.generations.compactMap { generation in
            guard generation.layers.resolve(to: generation.digest.text) else { return nil }
            let published = generation.published.flatMap { $0.resolve(to: generation.digest.text) ? $0 : nil }
            return generation.with(generation.layers, published: published)
        }
    }

    /// Continues far behind all revisions, if the state was written in another epoch. Later revisions may have been given to other
    /// content in a life that this directory does not record, and not every client sends the epoch of the revision that it resumes
    /// from.
    mutating func skipUnknownRevisions() {
        highestPossiblyPublished = max(revision, highestSeen, reservedBound) + RevisionReservation.unknownRevisions
    }
}

extension Layers {
    fileprivate func resolve(to digest: String) -> Bool { SnapshotDigest.text(of: resolved()) == digest }
}
