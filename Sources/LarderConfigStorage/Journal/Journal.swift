import LarderPlatform
import Logging
import Synchronization

/// The journal of a namespace: the changes that came after the newest generation. Each change takes one write in place and one
/// fdatasync(2). Every function here blocks on the disk, except ``isTooLong()``.
///
/// The file has one ``JournalRecord`` per line, and an end mark. Once a generation contains all records, the next one is written
/// at the start of the file.
package final class Journal: Sendable {
    /// The usual size of the file.
    private static let usualSize = 256 * 1024
    /// Before a longer journal gets another record, a generation is written, unless this is less than a few of its records.
    private static let maxLength = 4 * 1024 * 1024
    private static let minRecords = 8

    private struct State {
        var file: (any JournalFile)?
        /// Where the next record is written.
        var end = 0
        /// The length of the file, or more.
        var size = 0
        /// The sequence number of the last record written.
        var lastSequence = 0
        /// The length of that record.
        var lastBytes = 0
        /// A journal up to this length is not reported as too long again.
        var toleratedLength = 0
    }

    private let namespace: String
    private let path: String
    private let files: any FileSystem
    private let logger: Logger
    /// The committer alone writes, so that the lock, which is held while the disk is waited for, is never contended.
    private let state = Mutex(State())

    /// - Parameter directory: the directory of the namespace
    init(namespace: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        path = directory + "/journal"
        self.files = files
        self.logger = logger
    }

    // MARK: The start

    /// Reads the records that follow a generation. The next record continues the file behind them. If records are damaged or
    /// missing, that is logged, and a copy of the file is kept.
    /// - Parameter sequence: the last record that the generation contains; 0 for no generation
    /// - Returns: nil if there is no journal and there has never been one
    func read(after sequence: Int) throws(FileError) -> JournalReader? {
        // A journal that is missing has lost all its records.
        let found = try files.readJournal(path)
        if found == nil, sequence == 0 { return nil }
        let content = found ?? JournalContent(bytes: [], zeros: 0)
        let reader = JournalReader(content.bytes, zeros: content.zeros, after: sequence)
        if reader.isOfAnotherVersion {
            throw FileError(
                notOursYet: path,
                "it has a change of a kind that this version of larderd does not know; run the version that wrote it, or move the file away to go on without its changes"
            )
        }
        state.withLock { state in
            state.lastSequence = reader.records.last?.sequence ?? sequence
            state.end = reader.end
            state.size = content.bytes.count + content.zeros
        }
        switch reader.ending {
        case .clean: break
        case .torn, .damaged: report(reader, of: content.bytes)
        }
        return reader
    }

    private func report(_ reader: JournalReader, of bytes: [UInt8]) {
        var metadata: Logger.Metadata = ["namespace": "\(namespace)", "file": "\(path)"]
        do throws(FileError) {
            try files.replace(path + ".damaged", with: bytes)
            metadata["copy"] = "\(path).damaged"
        } catch {
            metadata["copy"] = "none: \(error)"
        }
        guard case .damaged = reader.ending else {
            return logger.warning(
                "the journal ends in what is no record: a write that a crash cut off, of which nobody was told, or damage to the last changes",
                metadata: metadata)
        }
        logger.error(
            "the journal is damaged and changes are missing; those that are whole are used", metadata: metadata)
    }

    // MARK: Records

    /// Whether a generation with all records has to be on disk before the next record. After true, the journal has to grow by the
    /// maximum length again before this is true again: a disk that cannot take a generation is not asked for one at each change.
    package func isTooLong() -> Bool {
        state.withLock { state in
            let longest = max(Self.maxLength, Self.minRecords * state.lastBytes)
            if state.end <= max(longest, state.toleratedLength) { return false }
            state.toleratedLength = state.end + longest
            return true
        }
    }

    /// Puts a change on disk. When it returns, the change survives a crash.
    /// - Parameter containedSequence: the last record that a generation on disk contains; if that is the last one written, the
    ///   journal begins again at its start
    package func append(_ record: JournalRecord, afterGenerationWith containedSequence: Int) throws(FileError) {
        try state.withLock { (state) throws(FileError) -> Void in
            let file = try open(&state)
            let beginsAgain = containedSequence >= state.lastSequence
            if beginsAgain {
                state.end = 0
                state.toleratedLength = 0
            }
            let bytes = record.encoded()
            do throws(FileError) {
                try file.write(bytes + [0], at: state.end)
            } catch {
                // The next start must not read the record, because its change is about to be refused. Two zeros, since a single
                // one could be damage to a record that was not refused.
                try? file.write([0, 0], at: state.end)
                throw error
            }
            state.end += bytes.count
            state.size = max(state.size, state.end + 1)
            state.lastSequence = record.sequence
            state.lastBytes = bytes.count
            // Not earlier: what is cut off has to be behind an end mark. Otherwise it looks like a write that a crash cut off.
            if beginsAgain { shorten(&state, file) }
        }
    }

    /// Gives back what the journal takes of the disk beyond its usual size, if a generation contains all records.
    /// - Parameter containedSequence: the last record that a generation on disk contains
    package func shorten(afterGenerationWith containedSequence: Int) throws(FileError) {
        try state.withLock { (state) throws(FileError) -> Void in
            guard state.size > Self.usualSize, containedSequence >= state.lastSequence else { return }
            let file = try open(&state)
            try file.write([0, 0], at: 0)
            state.end = 0
            shorten(&state, file)
        }
    }

    private func open(_ state: inout State) throws(FileError) -> any JournalFile {
        if let file = state.file { return file }
        let file = try files.openJournal(path, size: Self.usualSize)
        state.file = file
        state.size = max(state.size, Self.usualSize)
        return file
    }

    /// Cuts off what is behind the end mark, beyond the usual size. It is of no use, so that a failure does no harm.
    private func shorten(_ state: inout State, _ file: any JournalFile) {
        let size = max(Self.usualSize, state.end + 1)
        if state.size <= size { return }
        do throws(FileError) {
            try file.truncate(to: size)
            state.size = size
        } catch {
            logger.warning(
                "the journal cannot be shortened; it takes more of the disk than it needs",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }
}
