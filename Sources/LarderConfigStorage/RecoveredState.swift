package import LarderConfigModel

/// What a start finds.
package struct RecoveredState: Sendable {
    package var layers = Layers()
    /// The newest snapshots that are known for certain, as far as they had to be read: the newest generation that is
    /// whole, and what the journal made of it.
    package var history = GenerationHistory()
    /// The files of the generations before it, newest first; see ``ConfigArchive/generations(inFiles:before:)``.
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
    package var highestLost = 0

    /// The highest number that somebody may have seen although nothing with it is on disk.
    package var highestSeen: Int {
        max(highestName, highestLost, reservedBound > released ? reservedBound : 0)
    }

    /// The numbers with which the revisions go on.
    package var numbers: RevisionNumbering.Recovered {
        RevisionNumbering.Recovered(
            revision: revision, journalSequence: journalSequence, reservedBound: reservedBound, settledBound: released,
            highestNamed: max(highestName, highestLost))
    }
}
