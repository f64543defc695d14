package import LarderPlatform
import Synchronization

import LarderConfigStorage

/// The real file system, with failures and delays that a test sets.
package final class FaultyFileSystem: FileSystem {
    private struct State {
        var failure: CInt?
        var replacementFailure: CInt?
        var truncationFailure: CInt?
        var readFailure: (errno: CInt, times: Int)?
        var writes = 0
        var generationReads = 0
        var gate: DispatchGate?

        mutating func readGeneration() -> CInt? {
            generationReads += 1
            guard let failure = readFailure, failure.times > 0 else { return nil }
            readFailure?.times -= 1
            return failure.errno
        }
    }

    private let real = LocalFileSystem()
    private let state = Mutex(State())

    package init() {}

    /// Makes every write, and every attempt to open the journal, fail with `errno`; nil ends the failures.
    package func failWrites(with errno: CInt?) { state.withLock { $0.failure = errno } }
    /// Makes every replacement of a file fail with `errno`; nil ends the failures.
    package func failReplacements(with errno: CInt?) { state.withLock { $0.replacementFailure = errno } }
    /// Makes every truncation of the journal fail with `errno`; nil ends the failures.
    package func failTruncations(with errno: CInt?) { state.withLock { $0.truncationFailure = errno } }
    /// Makes the next `times` reads of a generation file fail with `errno`.
    package func failGenerationReads(with errno: CInt, times: Int) {
        state.withLock { $0.readFailure = (errno, times) }
    }
    /// Makes every later journal write wait at `gate`; nil removes the gate.
    package func blockJournalWrites(at gate: DispatchGate?) { state.withLock { $0.gate = gate } }
    /// The number of reads of a generation file so far.
    package var generationReads: Int { state.withLock { $0.generationReads } }
    /// The number of journal writes so far.
    package var journalWrites: Int { state.withLock { $0.writes } }

    package func createDirectory(_ path: String) throws(FileError) { try real.createDirectory(path) }
    package func list(_ path: String) throws(FileError) -> [String] { try real.list(path) }
    package func read(_ path: String) throws(FileError) -> [UInt8]? {
        if path.contains("/generations/"), let failure = state.withLock({ $0.readGeneration() }) {
            throw FileError("read", path, errno: failure)
        }
        return try real.read(path)
    }
    package func readJournal(_ path: String) throws(FileError) -> JournalContent? { try real.readJournal(path) }
    package func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)? {
        try real.head(of: path, bytes: bytes)
    }
    package func rename(_ path: String, to newPath: String) throws(FileError) { try real.rename(path, to: newPath) }
    package func remove(_ path: String) throws(FileError) { try real.remove(path) }

    package func replace(_ path: String, with bytes: [UInt8]) throws(FileError) {
        try check("write", path)
        if let failure = state.withLock({ $0.replacementFailure }) { throw FileError("write", path, errno: failure) }
        try real.replace(path, with: bytes)
    }

    package func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile {
        try check("open", path)
        return Journal(file: try real.openJournal(path, size: size), owner: self, path: path)
    }

    private func check(_ operation: String, _ path: String) throws(FileError) {
        if let failure = state.withLock({ $0.failure }) { throw FileError(operation, path, errno: failure) }
    }

    private struct Journal: JournalFile {
        let file: any JournalFile
        let owner: FaultyFileSystem
        let path: String

        func write(_ bytes: [UInt8], at offset: Int) throws(FileError) {
            owner.state.withLock { $0.writes += 1 }
            owner.state.withLock { $0.gate }?.pass()
            try owner.check("write", path)
            try file.write(bytes, at: offset)
        }

        func truncate(to size: Int) throws(FileError) {
            if let failure = owner.state.withLock({ $0.truncationFailure }) {
                throw FileError("truncate", path, errno: failure)
            }
            try file.truncate(to: size)
        }
    }
}
