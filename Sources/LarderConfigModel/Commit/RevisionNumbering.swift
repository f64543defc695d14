/// Gives snapshots their revisions, so that none stands for two contents, whatever a crash loses.
///
/// A revision may be published once a journal record with it is on disk, or once a bound above it is reserved there. After a
/// crash, numbering continues behind every revision that may have been published.
package struct RevisionNumbering: Sendable, Equatable {
    /// What a start finds on disk.
    package struct Recovered: Sendable {
        /// The revision of the last state that is known for certain; 0 for none.
        package var revision: Int
        /// The last journal record that this state contains.
        package var journalSequence: Int
        /// The highest bound that was ever reserved.
        package var reservedBound: Int
        /// The bound up to which reservations are settled: nothing above ``revision`` was published under them.
        package var settledBound: Int
        /// The highest revision that anything else on disk names, or that a lost record may have had.
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

        /// The highest revision that may have been published although no content of it is known.
        package var highestPossiblyPublished: Int {
            max(highestNamed, reservedBound > settledBound ? reservedBound : 0)
        }

        /// The first revision after the start.
        /// - Parameter isCertain: whether the content of the start is the one that ``revision`` was published with
        package func firstRevision(isCertain: Bool) -> Int {
            if isCertain, revision > 0, revision >= highestPossiblyPublished { return revision }
            return max(revision, highestPossiblyPublished) + 1
        }
    }

    private enum Usable: Sendable, Equatable {
        case upTo(Int)
        /// The revisions count in an epoch that ends with the process.
        case all
    }

    /// How many revisions one write to the disk reserves.
    package static let blockSize = 1024

    package private(set) var journalSequence: Int
    package private(set) var reservedBound: Int
    package private(set) var settledBound: Int
    /// If nothing was published since a start that found no content: the highest revision that may have been published before it.
    /// Otherwise 0.
    private let highestPossiblyPublished: Int
    /// The revisions that may be published without a write to the disk.
    private var usable: Usable

    /// Continues after a start.
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

    /// The bound that has to be reserved on disk before the first revision is published; nil if it was published before the
    /// start.
    package func openingReservation(after recovered: Recovered, first: Int) -> Int? {
        first == recovered.revision ? nil : reservedBound
    }

    /// Takes all revisions as usable, since they count in an epoch that ends with the process.
    package mutating func endWithProcess() { usable = .all }

    /// The revision after the current one.
    package func next(after current: Int) -> Int { max(current, highestPossiblyPublished) + 1 }

    /// What has to be on disk before a snapshot is published.
    /// - Parameters:
    ///   - isNew: whether the revision is not published yet
    ///   - writesJournal: whether the changes are recorded in the journal
    package func need(for revision: Int, isNew: Bool, writesJournal: Bool) -> CommitNeed {
        if writesJournal { return .journal(sequence: journalSequence + 1, settledBound: reservedBound) }
        guard isNew, case .upTo(let last) = usable, revision > last else { return .nothing }
        return .reservation(bound: max(reservedBound, revision) + Self.blockSize)
    }

    /// Takes note that what was needed is on disk.
    package mutating func met(_ need: CommitNeed, publishing revision: Int) {
        switch need {
        case .nothing: break
        case .journal(let sequence, let settledBound):
            journalSequence = sequence
            // Whatever was published until now is on disk with this record. What is published without one needs new numbers.
            self.settledBound = settledBound
            if case .upTo = usable { usable = .upTo(revision) }
        case .reservation(let bound):
            reservedBound = bound
            usable = .upTo(bound)
        }
    }

    /// Settles all reservations, since nothing more is published.
    package mutating func settle() { settledBound = reservedBound }
}

/// What has to be on disk before a snapshot is published.
package enum CommitNeed: Sendable, Equatable {
    case nothing
    /// A journal record with the changes.
    case journal(sequence: Int, settledBound: Int)
    /// A reservation of all revisions up to a bound.
    case reservation(bound: Int)
}
