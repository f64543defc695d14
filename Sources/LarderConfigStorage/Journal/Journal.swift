package import LarderPlatform
import Logging
import Synchronization

/// The journal of a namespace: the changes since the newest generation. Each change takes one write in place and one
/// fdatasync(2). All functions block on disk I/O, except ``isTooLong()``.
///
/// The file has one ``JournalRecord`` per line and then an end mark, which is a zero byte. Once a generation contains
/// all records, the next record is written at the start of the file.
package final class Journal: Sendable {
    /// The initial size of the file in bytes. A longer file is shortened to it.
    private static let defaultSize = 256 * 1024
    /// If the records of the journal take more bytes than this, a generation is written before the next record. The
    /// limit is higher if the last record is so large that fewer than `minRecords` records of its size fit into this
    /// length.
    private static let maxLength = 4 * 1024 * 1024
    private static let minRecords = 8

    private struct State {
        var file: (any JournalFile)?
        /// The offset of the next record.
        var end = 0
        /// The size of the file in bytes, or an upper bound of it.
        var size = 0
        /// The sequence number of the last record written.
        var lastSequence = 0
        /// The size of that record in bytes.
        var lastBytes = 0
        /// After ``isTooLong()`` has returned true, it returns false until the journal is longer than this. 0 if it has
        /// not returned true since the journal last started over.
        var toleratedLength = 0
    }

    private let namespace: String
    private let path: String
    private let files: any FileSystem
    private let logger: Logger
    /// The committer uses it on its actor and on the threads for disk work, one call at a time. Therefore this lock is
    /// never contended, although it is held during disk I/O.
    private let state = Mutex(State())

    /// - Parameter directory: the directory of the namespace
    init(namespace: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        path = directory + "/journal"
        self.files = files
        self.logger = logger
    }

    // MARK: Recovery

    /// Reads the records after a generation. New records are appended after them. If records are damaged or missing,
    /// the problem is logged and a copy of the file is kept.
    /// - Parameter sequence: the sequence number of the last record that the generation contains; 0 for no generation
    /// - Returns: nil if there is no journal and none is expected
    func read(after sequence: Int) throws(FileError) -> JournalReader? {
        // If the file is missing although a generation contains records, all later records are lost.
        let found = try files.readJournal(path)
        if found == nil, sequence == 0 { return nil }
        let content = found ?? JournalContent(bytes: [], zeros: 0)
        let reader = JournalReader(content.bytes, zeros: content.zeros, after: sequence)
        if reader.isOfAnotherVersion {
            throw FileError(
                notOursYet: path,
                "it has a change of a kind that this version of larderd does not know; run the version that wrote it, or move the file away to continue without its changes"
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
                "namespace \(namespace): the journal \(path) ends with an invalid record: a crash cut off an unacknowledged write, or the last changes are damaged",
                metadata: metadata)
        }
        logger.error(
            "namespace \(namespace): the journal \(path) is damaged and some changes are missing; the intact changes are used",
            metadata: metadata)
    }

    // MARK: Records

    /// Whether a generation with all records must be on disk before the next record. After it has returned true, it
    /// returns false until the journal has grown by the maximum length again, so that a disk that cannot store a
    /// generation does not get another attempt at every change.
    package func isTooLong() -> Bool {
        state.withLock { state in
            let longest = max(Self.maxLength, Self.minRecords * state.lastBytes)
            if state.end <= max(longest, state.toleratedLength) { return false }
            state.toleratedLength = state.end + longest
            return true
        }
    }

    /// Writes a record and waits until it is on disk.
    /// - Parameter containedSequence: the sequence number of the last record that a generation on disk contains; if no
    ///   later record was written, the journal starts over
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
                // The change is about to be refused, so the next start must not read its record. Two zeros are written
                // over the start of the record, because a single one could be damage to a valid record.
                try? file.write([0, 0], at: state.end)
                throw error
            }
            state.end += bytes.count
            state.size = max(state.size, state.end + 1)
            state.lastSequence = record.sequence
            state.lastBytes = bytes.count
            // Shortens the file only after the write, because an end mark must precede the bytes that are cut off.
            // Otherwise an old record that is cut in half would look like a write that a crash cut off.
            if beginsAgain { shorten(&state, file) }
        }
    }

    /// Shortens the file to its usual size if a generation contains all records.
    /// - Parameter containedSequence: the sequence number of the last record that a generation on disk contains
    package func shorten(afterGenerationWith containedSequence: Int) throws(FileError) {
        try state.withLock { (state) throws(FileError) -> Void in
            guard state.size > Self.defaultSize, containedSequence >= state.lastSequence else { return }
            let file = try open(&state)
            try file.write([0, 0], at: 0)
            state.end = 0
            shorten(&state, file)
        }
    }

    private func open(_ state: inout State) throws(FileError) -> any JournalFile {
        if let file = state.file { return file }
        let file = try files.openJournal(path, size: Self.defaultSize)
        state.file = file
        state.size = max(state.size, Self.defaultSize)
        return file
    }

    /// Cuts off the bytes after the end mark, down to the usual size. A failure is harmless, because these bytes are
    /// not used.
    private func shorten(_ state: inout State, _ file: any JournalFile) {
        let size = max(Self.defaultSize, state.end + 1)
        if state.size <= size { return }
        do throws(FileError) {
            try file.truncate(to: size)
            state.size = size
        } catch {
            logger.warning(
                "namespace \(namespace): cannot shorten the journal; it occupies more disk space than it needs: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }
}
