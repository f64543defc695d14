/// Assigns revisions to snapshots, so that no revision ever stands for two contents, even after a crash.
///
/// A revision may be published once a journal record with it is on disk, or once a bound at or above it has been
/// reserved on disk. After a crash, numbering continues after every revision that may have been published.
package struct RevisionNumbering: Sendable, Equatable {
    /// The numbers that are read from disk at the start of the agent.
    package struct Recovered: Sendable {
        /// The revision of the last state that is known with certainty; 0 for none.
        package var revision: Int
        /// The sequence number of the last journal record in that state.
        package var journalSequence: Int
        /// The highest bound (last reserved revision) that was ever reserved.
        package var reservedBound: Int
        /// Reservations up to this bound are settled: no revision above ``revision`` was published under them.
        package var settledBound: Int
        /// The highest revision in any other file or record on disk, or that a lost journal record may have had.
        package var highestNamed: Int

        package init(
            revision: Int, journalSequence: Int, reservedBound: Int, settledBound: Int, highestNamed: Int
        ) {
            self.revision = revision
            self.journalSequence = journalSequence
            self.reservedBound = reservedBound
            self.settledBound = settledBound
            self.highestNamed = highestNamed
        }

        /// The highest revision that may have been published although its content is unknown; 0 for none.
        package var highestPossiblyPublished: Int {
            max(highestNamed, reservedBound > settledBound ? reservedBound : 0)
        }

        /// The first revision after the start.
        /// - Parameter isCertain: whether the content at the start is certainly the content that was published as
        ///   ``revision``
        package func firstRevision(isCertain: Bool) -> Int {
            if isCertain, revision > 0, revision >= highestPossiblyPublished { return revision }
            return max(revision, highestPossiblyPublished) + 1
        }
    }

    private enum Usable: Sendable, Equatable {
        case upTo(Int)
        /// Any revision may be published without a disk write, because the epoch ends with the process.
        case all
    }

    /// The number of revisions that one disk write reserves.
    package static let blockSize = 1024

    package private(set) var journalSequence: Int
    package private(set) var reservedBound: Int
    package private(set) var settledBound: Int
    /// If no snapshot was published at the start, the highest revision that may have been published before the start.
    /// Otherwise 0.
    private let highestPossiblyPublished: Int
    /// The revisions that may be published without a disk write.
    private var usable: Usable

    /// Continues the numbering after a start.
    /// - Parameter first: the first revision; 0 if nothing is published yet
    package init(after recovered: Recovered, first: Int) {
        journalSequence = recovered.journalSequence
        settledBound = recovered.settledBound
        highestPossiblyPublished = first == 0 ? recovered.highestPossiblyPublished : 0
        let bound = max(recovered.reservedBound, recovered.settledBound)
        if first == recovered.revision {
            reservedBound = bound
            usable = .upTo(first)
        } else {
            reservedBound = max(bound, first) + Self.blockSize
            usable = .upTo(reservedBound)
        }
    }

    /// The bound to reserve on disk before the first revision is published; nil if the first revision was published
    /// before the start.
    package func openingReservation(after recovered: Recovered, first: Int) -> Int? {
        first == recovered.revision ? nil : reservedBound
    }

    /// Allows all revisions without a reservation, because the epoch ends with the process.
    package mutating func endWithProcess() { usable = .all }

    /// The revision of the snapshot after the current one.
    package func next(after current: Int) -> Int { max(current, highestPossiblyPublished) + 1 }

    /// The write that must be on disk before a snapshot is published.
    /// - Parameters:
    ///   - isNew: whether the revision has not been published yet
    ///   - writesJournal: whether the journal records the changes
    package func need(for revision: Int, isNew: Bool, writesJournal: Bool) -> CommitNeed {
        if writesJournal { return .journal(sequence: journalSequence + 1, settledBound: reservedBound) }
        guard isNew, case .upTo(let last) = usable, revision > last else { return .nothing }
        return .reservation(bound: max(reservedBound, revision) + Self.blockSize)
    }

    /// Records that the disk write that had to precede a publication is complete.
    package mutating func met(_ need: CommitNeed, publishing revision: Int) {
        switch need {
        case .nothing: break
        case .journal(let sequence, let settledBound):
            journalSequence = sequence
            // The state in this record includes everything published so far. Revisions without a record need a new
            // reservation from now on.
            self.settledBound = settledBound
            if case .upTo = usable { usable = .upTo(revision) }
        case .reservation(let bound):
            reservedBound = bound
            usable = .upTo(bound)
        }
    }

    /// Marks all reserved revisions as settled. Nothing may be published afterwards.
    package mutating func settle() { settledBound = reservedBound }
}

/// A write that must be on disk before a snapshot is published.
package enum CommitNeed: Sendable, Equatable {
    case nothing
    /// A journal record with the changes.
    case journal(sequence: Int, settledBound: Int)
    /// A reservation of all revisions up to the bound.
    case reservation(bound: Int)
}
