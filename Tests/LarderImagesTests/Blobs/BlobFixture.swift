import Foundation
import LarderImageFormats
import LarderPlatform
import Synchronization
import TestSupport

@testable import LarderImages

/// Runs a body with the path of a directory that does not exist yet and is removed afterwards.
func withDirectory<T>(_ body: (String) throws -> T) throws -> T {
    try withTemporaryDirectory { try body($0 + "/cache") }
}

/// A small PNG, different for each number, whose pixels are random bytes. It has `size` bytes, but at least
/// 57.
func picture(_ number: Int, size: Int = 1000) -> [UInt8] {
    var generator = SeededGenerator(seed: UInt64(number))
    let start = MadeImages.pngStart(number % 100 + 1, 2)
    let end = MadeImages.chunk("IEND", [])
    let data = (0..<max(0, size - start.count - 12 - end.count)).map { _ in UInt8.random(in: 0...255, using: &generator)
    }
    return start + MadeImages.chunk("IDAT", data) + end
}

extension SpaceUsage {
    static let nothing = Self(bytes: 0, count: 0, reservedBytes: 0)
    /// One image of 1,000 bytes.
    static let one = Self(bytes: 1000, count: 1, reservedBytes: 0)
}

extension BlobStore {
    /// Opens a store whose disk space is counted by the sizes of its files, not by their blocks.
    convenience init(
        counting path: String, limits: SpaceLimits = SpaceLimits(), imageLimits: ImageLimits = ImageLimits()
    ) throws {
        try self.init(path: path, files: FaultyCacheFiles(path), limits: limits, imageLimits: imageLimits)
    }

    /// Publishes bytes that arrive in pieces.
    func put(_ bytes: [UInt8], pieces: Int = 300, declared: Bool = false) throws(ImageError) -> PublishedBlob {
        let writer = try begin(declaredLength: declared ? bytes.count : nil)
        var rest = bytes[...]
        while !rest.isEmpty {
            try writer.append(Array(rest.prefix(pieces)))
            rest = rest.dropFirst(pieces)
        }
        return try finish(writer)
    }

    func begin(declaredLength: Int? = nil) throws(ImageError) -> BlobWriter {
        try writers.begin(declaredLength: declaredLength)
    }

    /// Publishes the image of a writer, as ``ImageDiskCache`` does.
    func finish(_ writer: BlobWriter, expectedDigest: BlobDigest? = nil) throws(ImageError) -> PublishedBlob {
        let sealed = try writer.seal(expectedDigest: expectedDigest)
        return try ImageError.from { () throws(FileError) in
            try blobs.publish(sealed)
            do throws(FileError) {
                try files.synchronizeDirectory(BlobFiles.shard(sealed.blob.digest.shard))
            } catch {
                try blobs.undoPublication(of: sealed.blob.digest)
                throw error
            }
            return sealed.blob
        }
    }

    /// Opens the file of a blob, as ``ImageDiskCache`` does.
    func open(_ digest: BlobDigest) throws(ImageError) -> BlobFile {
        let isVerified = accounts.isVerified(digest)
        let opening = try ImageError.from { () throws(FileError) in
            try BlobFiles.open(digest, in: files, isVerified: isVerified)
        }
        if isVerified, case .whole(let file) = opening { return file }
        return try complete(opening, of: digest)
    }

    var usage: SpaceUsage { accounts.usage }

    func path(of digest: BlobDigest) -> String { path + "/" + BlobFiles.name(digest) }

    /// Adds the reference of a row that an earlier process wrote.
    func adopt(_ digest: BlobDigest, size: Int) {
        register.change { $0.adopt(digest, bytes: $0.space(of: size)) }
    }

    func retain(_ digest: BlobDigest, ifVerified: Bool = false) -> Bool {
        register.change { $0.retain(digest, ifVerified: ifVerified) }
    }

    /// Releases a reference. Returns whether it was the last one.
    func release(_ digest: BlobDigest) -> Bool { register.change { $0.release(digest, isRow: false) } }

    func update(limits: SpaceLimits) { register.change { $0.ledger.limits = limits } }

    /// Releases a reference to an image, and removes the file of the image if the reference was the last.
    func drop(_ digest: BlobDigest) throws(ImageError) { if release(digest) { try removeUnreferenced(digest) } }

    /// Runs a complete sweep.
    /// - Returns: the number of removed files
    func sweepAll() throws(ImageError) -> Int {
        var step: Int? = 0
        var removed = 0
        while let next = step {
            let slice = try sweeper.sweep(step: next)
            removed += slice.removed
            if let failure = slice.failure { throw failure }
            step = slice.next
        }
        return removed
    }

    func contents(_ digest: BlobDigest) throws(ImageError) -> [UInt8] {
        let file = try open(digest)
        return try file.read(at: 0, count: file.size)
    }
}

extension ImageDiskCache {
    /// Publishes bytes that arrive in pieces of 300.
    func put(_ bytes: [UInt8], declared: Bool = false) async throws(ImageError) -> PublishedBlob {
        let writer = try writers.begin(declaredLength: declared ? bytes.count : nil)
        for start in stride(from: 0, to: bytes.count, by: 300) {
            try writer.append(Array(bytes[start..<min(bytes.count, start + 300)]))
        }
        return try await publish(writer)
    }

    func contents(_ digest: BlobDigest) async throws(ImageError) -> [UInt8] {
        let file = try await open(digest)
        return try file.read(at: 0, count: file.size)
    }

    /// Releases a reference to an image, and removes the file of the image if the reference was the last.
    ///
    /// - Parameter isRow: whether the reference is that of a row
    /// - Returns: whether the file was removed
    @discardableResult
    func drop(_ digest: BlobDigest, isRow: Bool = false) -> Bool {
        change { $0.release(digest, isRow: isRow) } && removeUnreferenced([digest]).count == 1
    }

    /// Changes the table of the blobs.
    func change<T: Sendable>(_ body: @Sendable (inout BlobTable) -> T) -> T { store.register.change(body) }

    /// Runs a body on the actor.
    func run(_ body: @Sendable () -> Void) { body() }

    /// Occupies the actor until the gate opens.
    func wait(for gate: DispatchSemaphore) { gate.wait() }

    /// Runs an SQL statement on the index.
    func execute(_ statement: String) throws { try index?.database.database.run(statement) }
}

/// The sizes of the regular files below a directory, by relative path.
func filesBelow(_ path: String) -> [String: Int] {
    var result: [String: Int] = [:]
    for name in FileManager.default.enumerator(atPath: path)?.allObjects as? [String] ?? [] {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "/" + name)
        if attributes?[.type] as? FileAttributeType == .typeRegular { result[name] = attributes?[.size] as? Int }
    }
    return result
}

/// The files of a real directory, with failures that a test injects.
final class FaultyCacheFiles: DirectoryFiles {
    /// The failure of one call of a file operation. `call` is the number of the call among those of all operations,
    /// from 0.
    struct Fault: Sendable {
        var call: Int
        var errno: CInt
        /// Whether all later calls fail as well, as if the process had been killed.
        var isLast: Bool
    }

    private struct State {
        var calls = 0
        var fault: Fault?
        /// Names whose operations fail.
        var failing: [String: CInt] = [:]
        var free: Int?
        var observer: (@Sendable (_ operation: String, _ name: String) -> Void)?
    }

    /// How the space of a file is counted.
    enum Counting { case bytes, blocks }

    private let real: LocalDirectoryFiles
    private let counting: Counting
    private let isDurable: Bool
    private let state = Mutex(State())

    /// - Parameters:
    ///   - counting: `bytes` for the sizes of files without directories, which do not depend on the file system;
    ///     `blocks` for the allocated disk space
    ///   - isDurable: false to skip fsync(2)
    init(_ path: String, counting: Counting = .bytes, isDurable: Bool = true) throws {
        real = try LocalDirectoryFiles(path: path)
        (self.counting, self.isDurable) = (counting, isDurable)
    }

    /// Sets the fault, and counts calls from 0 again.
    func arm(_ fault: Fault?) { state.withLock { ($0.calls, $0.fault) = (0, fault) } }
    /// Lets all operations on a name fail.
    func fail(_ name: String, _ errno: CInt) { state.withLock { $0.failing[name] = errno } }
    /// Sets the reported free space of the disk; nil for the real value.
    func setFree(_ bytes: Int?) { state.withLock { $0.free = bytes } }
    var calls: Int { state.withLock { $0.calls } }
    /// Sets a function that is called before each operation.
    func observe(_ observer: (@Sendable (_ operation: String, _ name: String) -> Void)?) {
        state.withLock { $0.observer = observer }
    }

    fileprivate func pass(_ operation: String, _ name: String) throws(FileError) {
        state.withLock { $0.observer }?(operation, name)
        let number: CInt? = state.withLock { state in
            defer { state.calls += 1 }
            if let number = state.failing[name] { return number }
            guard let fault = state.fault else { return nil }
            return state.calls == fault.call || (fault.isLast && state.calls > fault.call) ? fault.errno : nil
        }
        if let number { throw FileError(operation, name, errno: number) }
    }

    func createDirectory(_ name: String) throws(FileError) -> Bool {
        try pass("make", name)
        return try real.createDirectory(name)
    }
    func create(_ name: String) throws(FileError) -> any DirectoryFile {
        try pass("create", name)
        return File(try real.create(name), self)
    }
    func allocate(_ name: String, _ bytes: Int) throws(FileError) {
        try pass("allocate", name)
        try real.allocate(name, bytes)
    }
    func open(_ name: String) throws(FileError) -> (any DirectoryFile)? {
        try pass("open", name)
        return try real.open(name).map { File($0, self) }
    }
    func publish(_ name: String, as newName: String) throws(FileError) -> Bool {
        try pass("publish", name)
        return try real.publish(name, as: newName)
    }
    func replace(_ name: String, as newName: String) throws(FileError) {
        try pass("rename", name)
        try real.replace(name, as: newName)
    }
    func remove(_ name: String) throws(FileError) -> Bool {
        try pass("remove", name)
        return try real.remove(name)
    }
    func removeDirectory(_ name: String) throws(FileError) -> Bool {
        try pass("rmdir", name)
        return try real.removeDirectory(name)
    }
    func synchronizeDirectory(_ name: String) throws(FileError) {
        try pass("fsync", name)
        guard isDurable else { return }
        try real.synchronizeDirectory(name)
    }
    func list(_ name: String) throws(FileError) -> [String] {
        try pass("list", name)
        return try real.list(name)
    }
    func hasFile(_ name: UnsafePointer<CChar>) -> Bool { real.hasFile(name) }
    var blockBytes: Int { counting == .bytes ? 1 : real.blockBytes }
    func allocatedBytes(_ name: String) throws(FileError) -> Int {
        counting == .bytes ? 0 : try real.allocatedBytes(name)
    }
    func freeBytes() throws(FileError) -> Int {
        try pass("measure", "disk")
        if let free = state.withLock({ $0.free }) { return free }
        return try real.freeBytes()
    }

    private struct File: DirectoryFile {
        let real: any DirectoryFile
        let owner: FaultyCacheFiles
        init(_ real: any DirectoryFile, _ owner: FaultyCacheFiles) { (self.real, self.owner) = (real, owner) }

        var descriptor: CInt? { real.descriptor }
        func size() throws(FileError) -> Int {
            try owner.pass("stat", "")
            return try real.size()
        }
        func allocatedBytes() throws(FileError) -> Int {
            owner.counting == .bytes ? try real.size() : try real.allocatedBytes()
        }
        func append(_ bytes: [UInt8]) throws(FileError) {
            do throws(FileError) {
                try owner.pass("write", "")
            } catch {
                // When a disk fills up, part of the bytes is written before the call fails.
                try real.append(Array(bytes.prefix(bytes.count / 2)))
                throw error
            }
            try real.append(bytes)
        }
        func read(at offset: Int, count: Int) throws(FileError) -> [UInt8] {
            try owner.pass("read", "")
            return try real.read(at: offset, count: count)
        }
        func seal() throws(FileError) {
            try owner.pass("seal", "")
            guard owner.isDurable else { return }
            try real.seal()
        }
    }
}
