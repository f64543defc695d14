import CLinuxShims
import Crypto
import Glibc
package import LarderConfigModel
import LarderEncoding
package import Logging
import Synchronization

/// A namespace's state on disk: generations, the journal of what came after the newest one, and the revision numbers
/// that are reserved. Every function here blocks on the disk.
///
/// - `generations/<revision>.json` and `pinned`: see ``GenerationDirectory``.
/// - `journal`: see ``JournalRecord``; one write in place and one fdatasync for each durable change.
/// - `reserved`: a revision up to which numbers may have been seen by somebody although nothing with them is on disk.
package final class ConfigArchive: Sendable {
    /// Generations that were set aside; older ones are removed.
    private static let keptDamaged = 4
    /// More numbers than an agent gives between two writes of a generation.
    private static let unknownNumbers = 1 << 20
    private static let journalSize = 256 * 1024
    /// A journal that is longer waits for a generation, unless that is less than a few of its records.
    private static let longestJournal = 4 * 1024 * 1024
    private static let fewestRecords = 8

    private struct Journal {
        var file: (any JournalFile)?
        var end = 0
        /// The length of the file, or more.
        var size = 0
        /// The sequence number of the last record written.
        var lastSequence = 0
        /// The length of that record.
        var lastBytes = 0
        /// How long it is let become, where the last generation that was asked for was not written.
        var tolerated = 0
    }

    package let namespace: String
    package let epoch: String
    private let directory: String
    private let files: any FileSystem
    private let logger: Logger
    package let generationDirectory: GenerationDirectory
    /// Written by the store's committer alone; the lock is never held by two.
    private let journal = Mutex(Journal())

    package init(namespace: String, epoch: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        self.epoch = epoch
        self.directory = directory
        self.files = files
        self.logger = logger
        generationDirectory = GenerationDirectory(
            namespace: namespace, directory: directory, files: files, logger: logger)
    }

    private var generations: String { directory + "/generations" }
    private var journalPath: String { directory + "/journal" }
    private var reservedPath: String { directory + "/reserved" }

    /// Reads the newest whole state. A damaged file is set aside under the name `….damaged`, and the one before it serves.
    package func restore() throws(FileError) -> RecoveredState {
        try files.createDirectory(generations)
        var restored = RecoveredState()
        let names = try files.list(generations)
        let setAside = names.filter { $0.hasSuffix(".damaged") }.sorted(by: >)
        for name in names.filter({ $0.hasSuffix(".tmp") }) + setAside.dropFirst(Self.keptDamaged) {
            removeLeftover(generations + "/" + name)
        }
        // Whatever a name says was published once, even if its content is lost.
        for name in names {
            restored.highestName = max(restored.highestName, GenerationDirectory.revision(inName: name) ?? 0)
        }
        restored.reservedBound = try reservation(after: restored.highestName)
        var older = names.filter { $0.hasSuffix(".json") && GenerationDirectory.revision(inName: $0) != nil }.sorted(
            by: >)[...]
        var newest: Generation?
        while newest == nil, let name = older.popFirst() { newest = try load(name) }
        restored.olderFiles = Array(older)
        if let newest {
            restored.history.append(newest)
            restored.layers = newest.layers
            restored.revision = newest.revision
            restored.digest = newest.digest.text
            restored.publishedAt = newest.publishedAt
            restored.causes = newest.causes
            restored.journalSequence = newest.journalSequence
            restored.released = newest.released
        }
        restored.unwritten = try replayJournal(into: &restored)
        if let epoch = newest?.epoch, epoch != self.epoch {
            // Revisions after this one were given to other content, perhaps, in a life that this directory knows nothing of.
            // Not every client sends the epoch of the revision that it resumes from.
            let highest = max(restored.revision, restored.highestSeen, restored.reservedBound)
            restored.highestLost = highest + Self.unknownNumbers
        }
        for generation in restored.unwritten { restored.history.append(generation) }
        return restored
    }

    /// - Returns: the snapshots that the records made, as far as they are certain.
    private func replayJournal(into restored: inout RecoveredState) throws(FileError) -> [Generation] {
        // One that is not there any more has lost all that it had.
        let found = try files.readJournal(journalPath)
        if found == nil, restored.journalSequence == 0 { return [] }
        let content = found ?? JournalContent(bytes: [], zeros: 0)
        let reading = JournalReader(content.bytes, zeros: content.zeros, after: restored.journalSequence)
        if reading.isOfAnotherVersion {
            throw FileError(
                notOursYet: journalPath,
                "it has a change of a kind that this version of larderd does not know; run the version that wrote it, or move the file away to go on without its changes"
            )
        }
        var snapshots = GenerationHistory()
        for record in reading.records {
            for operation in record.operations { operation.apply(to: &restored.layers) }
            if record.revision != restored.revision { restored.causes = record.causes }
            snapshots.append(
                Generation(
                    revision: record.revision, digest: SnapshotDigest(known: record.digest),
                    publishedAt: record.publishedAt,
                    journalSequence: record.sequence, released: record.released, causes: restored.causes,
                    layers: restored.layers))
            restored.revision = record.revision
            restored.digest = record.digest
            restored.publishedAt = record.publishedAt
            restored.journalSequence = record.sequence
            restored.released = record.released
        }
        let last = restored.journalSequence
        journal.withLock { journal in
            journal.lastSequence = last
            journal.end = reading.end
            journal.size = content.bytes.count + content.zeros
        }
        switch reading.ending {
        case .clean: break
        case .torn, .damaged:
            restored.highestLost = max(restored.revision, restored.reservedBound) + reading.lost
            report(reading, of: content.bytes)
        }
        // What came from a source between two records is not in the journal.
        return snapshots.generations.compactMap { generation in
            guard generation.layers.resolve(to: generation.digest.text) else { return nil }
            let published = generation.published.flatMap { $0.resolve(to: generation.digest.text) ? $0 : nil }
            return generation.with(generation.layers, published: published)
        }
    }

    /// Reads what came before the newest generation. A damaged file is set aside; one that cannot be read, or was removed
    /// since for newer ones, is left out.
    /// - Parameters:
    ///   - names: the files, newest first.
    ///   - next: the generation that follows them, whose documents they share where they are equal.
    /// - Returns: as many as a history holds before it, newest first.
    package func generations(inFiles names: [String], before next: Generation?) -> [Generation] {
        var found: [Generation] = []
        for name in names {
            if found.count == GenerationHistory.capacity - 1 { break }
            guard let generation = try? load(name) else { continue }
            found.append(generation.sharing(with: found.last ?? next))
        }
        return found
    }

    private func report(_ reading: JournalReader, of bytes: [UInt8]) {
        var metadata: Logger.Metadata = ["namespace": "\(namespace)", "file": "\(journalPath)"]
        do throws(FileError) {
            try files.replace(journalPath + ".damaged", with: bytes)
            metadata["copy"] = "\(journalPath).damaged"
        } catch {
            metadata["copy"] = "none: \(error)"
        }
        guard case .damaged = reading.ending else {
            return logger.warning(
                "the journal ends in what is no record: a write that a crash cut off, of which nobody was told, or damage to the last changes",
                metadata: metadata)
        }
        logger.error(
            "the journal is damaged and changes are missing; those that are whole are used", metadata: metadata)
    }

    private func removeLeftover(_ path: String) {
        do throws(FileError) {
            try files.remove(path)
        } catch {
            logger.warning(
                "a file that is of no use any more cannot be removed",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }

    /// Reads a generation; nil where it is damaged, and set aside.
    /// - Throws: where it cannot be read now and may well be later, as for want of descriptors, memory or permission, and where
    ///   another version of this program wrote it: what is older must not take its place.
    private func load(_ name: String) throws(FileError) -> Generation? {
        let path = generations + "/" + name
        let reason: String
        do throws(FileError) {
            guard let bytes = try readTwice(path) else { return nil }
            do throws(GenerationFile.Damage) {
                return try GenerationFile.decode(bytes)
            } catch {
                if let format = error.otherFormat {
                    throw FileError(
                        notOursYet: path,
                        "another version of larderd wrote it, in format \(format), and this version reads format "
                            + "\(GenerationFile.format); run that version, or move the file away to use the state before it"
                    )
                }
                reason = error.reason
            }
        } catch {
            guard error.errno == EIO else { throw error }
            reason = error.description
        }
        var metadata: Logger.Metadata = ["namespace": "\(namespace)", "file": "\(path)", "reason": "\(reason)"]
        do throws(FileError) {
            try files.rename(path, to: path + ".damaged")
        } catch {
            metadata["remains"] = "\(error)"
        }
        logger.error("a saved generation is damaged and set aside; the one before it is used", metadata: metadata)
        return nil
    }

    /// Reads a file, and once more where the disk failed at it: a sector that is bad stays bad, everything else passes.
    private func readTwice(_ path: String) throws(FileError) -> [UInt8]? {
        do throws(FileError) {
            return try files.read(path)
        } catch {
            guard error.errno == EIO else { throw error }
            return try files.read(path)
        }
    }

    /// Whether the journal is so long that a generation with all of it has to be on disk before the next record. Who is
    /// told so is not told again before the journal has grown by as much once more: a disk that cannot take a generation
    /// is not asked for one at each change.
    package func isJournalTooLong() -> Bool {
        journal.withLock { journal in
            let longest = max(Self.longestJournal, Self.fewestRecords * journal.lastBytes)
            if journal.end <= max(longest, journal.tolerated) { return false }
            journal.tolerated = journal.end + longest
            return true
        }
    }

    /// Puts a change on disk. When it returns, the change survives a crash.
    /// - Parameter containedSequence: the last record that a generation on disk contains; where that is the last one
    ///   written, the journal begins again at its start.
    package func append(_ record: JournalRecord, afterGenerationWith containedSequence: Int) throws(FileError) {
        try journal.withLock { (journal) throws(FileError) -> Void in
            let file = try open(&journal)
            let beginsAgain = containedSequence >= journal.lastSequence
            if beginsAgain {
                journal.end = 0
                journal.tolerated = 0
            }
            let bytes = record.encoded()
            do throws(FileError) {
                try file.write(bytes + [0], at: journal.end)
            } catch {
                // The record must not come to life at the next start: its change is about to be refused. Two zeros, since
                // one could be damage to a record that was not.
                try? file.write([0, 0], at: journal.end)
                throw error
            }
            journal.end += bytes.count
            journal.size = max(journal.size, journal.end + 1)
            journal.lastSequence = record.sequence
            journal.lastBytes = bytes.count
            // Not before: what is cut off must lie behind an end mark, or it looks like a write that a crash cut off.
            if beginsAgain { shorten(&journal, file) }
        }
    }

    /// Gives back what the journal takes of the disk beyond its usual size, if a generation contains all of it.
    /// - Parameter containedSequence: the last record that a generation on disk contains.
    package func shortenJournal(afterGenerationWith containedSequence: Int) throws(FileError) {
        try journal.withLock { (journal) throws(FileError) -> Void in
            guard journal.size > Self.journalSize, containedSequence >= journal.lastSequence else { return }
            let file = try open(&journal)
            try file.write([0, 0], at: 0)
            journal.end = 0
            shorten(&journal, file)
        }
    }

    private func open(_ journal: inout Journal) throws(FileError) -> any JournalFile {
        if let file = journal.file { return file }
        let file = try files.openJournal(journalPath, size: Self.journalSize)
        journal.file = file
        journal.size = max(journal.size, Self.journalSize)
        return file
    }

    /// Cuts off what lies behind the end mark, beyond the usual size. It is of no use, so that a failure does no harm.
    private func shorten(_ journal: inout Journal, _ file: any JournalFile) {
        let size = max(Self.journalSize, journal.end + 1)
        if journal.size <= size { return }
        do throws(FileError) {
            try file.truncate(to: size)
            journal.size = size
        } catch {
            logger.warning(
                "the journal cannot be shortened; it takes more of the disk than it needs",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }

    /// Puts a whole generation on disk and removes those that the limits do not keep.
    package func write(_ generation: Generation) throws(FileError) {
        try generationDirectory.write(
            generation, GenerationFile.encode(generation, epoch: epoch, namespace: namespace))
    }

    /// See ``GenerationDirectory/pin(_:_:encoded:)``.
    package func pin(_ isPinned: Bool, _ generation: Generation) throws(FileError) -> GenerationDirectory.PinResult {
        try generationDirectory.pin(isPinned, generation) {
            GenerationFile.encode(generation, epoch: epoch, namespace: namespace)
        }
    }

    /// Reads a generation; nil if there is none, it is damaged or cannot be read.
    package func generation(ofRevision revision: Int) -> Generation? {
        (try? load(GenerationDirectory.name(revision: revision))) ?? nil
    }

    /// Promises that no revision up to this number is ever given to anything else.
    package func reserve(_ revision: Int) throws(FileError) {
        try files.replace(reservedPath, with: Array("\(revision) \(Self.checksum(of: revision))\n".utf8))
    }

    /// What tells a number that changed by itself: a lower one would let revisions be given twice.
    private static func checksum(of revision: Int) -> String {
        String(SHA256.hash(data: Array("reserved \(revision)".utf8)).hex.prefix(16))
    }

    private func reservation(after highestName: Int) throws(FileError) -> Int {
        guard let bytes = try files.read(reservedPath) else { return 0 }
        let words = bytes.dropLast().split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        // A number alone is what was written before there were checksums.
        if bytes.last == UInt8(ascii: "\n"), let revision = Int(words[0]), ExactIntegers.range.contains(revision),
            words.count == 1 || words == [words[0], Self.checksum(of: revision)]
        {
            return revision
        }
        logger.error(
            "the file of reserved revisions is damaged; numbering goes on far behind the newest generation",
            metadata: ["namespace": "\(namespace)", "file": "\(reservedPath)"])
        return highestName + Self.unknownNumbers
    }
}

extension Layers {
    fileprivate func resolve(to digest: String) -> Bool { SnapshotDigest.text(of: resolved()) == digest }
}
