import TestSupport
import Testing

@testable import LarderConfigModel

/// A model of the files of a namespace. It contains only completed writes, because only these survive a crash.
private struct ModelDisk {
    struct Record {
        var sequence: Int
        var revision: Int
        var content: Int
        var settledBound: Int
    }

    /// The newest generation.
    var generation = Record(sequence: 0, revision: 0, content: 0, settledBound: 0)
    /// The journal records after the newest generation.
    var journal: [Record] = []
    var reservedBound = 0
    var highestName = 0

    mutating func write(_ record: Record) {
        generation = record
        highestName = max(highestName, record.revision)
        journal.removeAll { $0.sequence <= record.sequence }
    }

    /// The numbers that the store reads from disk when it starts.
    var recovered: RevisionNumbering.Recovered {
        let last = journal.last ?? generation
        return RevisionNumbering.Recovered(
            revision: last.revision, journalSequence: last.sequence, reservedBound: reservedBound,
            settledBound: last.settledBound, highestNamed: highestName)
    }

    var content: Int { (journal.last ?? generation).content }
}

/// A model of a store without layers. It numbers revisions and records the content of each published one.
private struct ModelStore {
    var disk = ModelDisk()
    var numbering: RevisionNumbering
    var revision = 0
    var content = 0
    /// The content of every published revision, including those lost in a crash.
    var published: [Int: Int] = [:]
    var violations: [String] = []
    private var nextContent = 0

    init() {
        numbering = RevisionNumbering(after: disk.recovered, first: 0)
    }

    mutating func newContent() -> Int {
        nextContent += 1
        return nextContent
    }

    mutating func publish(_ revision: Int, _ content: Int) {
        if let other = published[revision], other != content {
            violations.append("revision \(revision) has contents \(other) and \(content)")
        }
        if revision < self.revision { violations.append("revision \(revision) was published after \(self.revision)") }
        published[revision] = content
        (self.revision, self.content) = (revision, content)
    }

    /// Commits a change.
    /// - Parameters:
    ///   - writesJournal: whether the journal records the change
    ///   - isNew: whether the change makes a snapshot
    ///   - crash: if not nil, the process crashes before it publishes the snapshot; `isWritten` is whether the write
    ///     for the snapshot reached the disk
    mutating func commit(writesJournal: Bool, isNew: Bool, crash: (isWritten: Bool, Void)?) {
        let content = isNew ? newContent() : self.content
        let revision = isNew ? numbering.next(after: self.revision) : self.revision
        let write = numbering.write(before: revision, isNew: isNew, writesJournal: writesJournal)
        if crash?.isWritten ?? true {
            switch write {
            case .nothing: break
            case .journal(let sequence, let settledBound):
                disk.journal.append(
                    ModelDisk.Record(
                        sequence: sequence, revision: revision, content: content, settledBound: settledBound))
            case .reservation(let bound): disk.reservedBound = bound
            }
        }
        if crash != nil { return start() }
        numbering.wrote(write, publishing: revision)
        publish(revision, content)
    }

    /// Writes the current generation, as the store does in the background.
    mutating func writeGeneration() {
        disk.write(
            ModelDisk.Record(
                sequence: numbering.journalSequence, revision: revision, content: content,
                settledBound: numbering.settledBound))
    }

    mutating func stop() {
        numbering.settle()
        if revision > 0 { writeGeneration() }
        start()
    }

    /// Restarts from the disk.
    /// - Parameter withOtherContent: whether a configuration file has changed while the process was down
    mutating func start(withOtherContent: Bool = false) {
        let recovered = disk.recovered
        let isCertain = !withOtherContent && recovered.revision > 0
        let first = recovered.revision == 0 && !withOtherContent ? 0 : recovered.firstRevision(isCertain: isCertain)
        numbering = RevisionNumbering(after: recovered, first: first)
        if let bound = numbering.openingReservation(after: recovered, first: first) { disk.reservedBound = bound }
        revision = 0
        content = withOtherContent ? newContent() : disk.content
        if first > 0 { publish(first, content) }
    }
}

@Suite("Revision numbering")
struct RevisionNumberingTests {
    @Test("a revision never has two contents, no matter when a crash occurs", arguments: 1...10 as ClosedRange<UInt64>)
    func crashes(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = ModelStore()
        for _ in 0..<10_000 {
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<40: store.commit(writesJournal: false, isNew: true, crash: nil)
            case 40..<70: store.commit(writesJournal: true, isNew: true, crash: nil)
            case 70..<75: if store.revision > 0 { store.commit(writesJournal: true, isNew: false, crash: nil) }
            case 75..<88: if store.revision > 0 { store.writeGeneration() }
            case 88..<92: store.start()
            case 92..<95:
                let (isWritten, writesJournal) = (Bool.random(using: &generator), Bool.random(using: &generator))
                store.commit(writesJournal: writesJournal, isNew: true, crash: (isWritten, ()))
            case 95..<97: store.start(withOtherContent: true)
            default: store.stop()
            }
            if !store.violations.isEmpty { break }
        }
        #expect(store.violations.isEmpty)
        #expect(store.published.count > 1000)
    }

    @Test("one reservation covers a block of revisions, and a journal record needs no reservation")
    func requiredWrites() {
        let recovered = RevisionNumbering.Recovered(
            revision: 0, journalSequence: 0, reservedBound: 0, settledBound: 0, highestNamed: 0)
        var numbering = RevisionNumbering(after: recovered, first: 0)
        let first = numbering.write(before: 1, isNew: true, writesJournal: false)
        #expect(first == .reservation(bound: 1 + RevisionNumbering.blockSize))
        numbering.wrote(first, publishing: 1)
        #expect(numbering.write(before: 2, isNew: true, writesJournal: false) == .nothing)
        let record = numbering.write(before: 2, isNew: true, writesJournal: true)
        #expect(record == .journal(sequence: 1, settledBound: 1 + RevisionNumbering.blockSize))
        numbering.wrote(record, publishing: 2)
        #expect(numbering.settledBound == 1 + RevisionNumbering.blockSize)
        #expect(numbering.write(before: 3, isNew: true, writesJournal: false) != .nothing)
        #expect(numbering.write(before: 2, isNew: false, writesJournal: false) == .nothing)
    }

    @Test("revisions of an epoch that ends with the process need no disk write")
    func ownEpoch() {
        let recovered = RevisionNumbering.Recovered(
            revision: 7, journalSequence: 3, reservedBound: 2000, settledBound: 5, highestNamed: 7)
        let first = recovered.firstRevision(isCertain: true)
        #expect(first == 2001)
        var numbering = RevisionNumbering(after: recovered, first: first)
        numbering.endWithProcess()
        #expect(numbering.write(before: 1_000_000, isNew: true, writesJournal: false) == .nothing)
    }
}
