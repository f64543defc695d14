package import LarderConfigModel
import Glibc
import LarderJSON
package import LarderPlatform
import Logging
import Synchronization

/// Reads and writes the files of a namespace's generations, and decides which of them to keep. All functions block on
/// disk I/O.
///
/// - `generations/<revision>.json`: a ``GenerationFile``.
/// - `pinned`: a JSON array of the pinned revisions.
package final class GenerationDirectory: Sendable {
    /// The result of ``pin(_:_:)``.
    package enum PinResult: Sendable, Equatable {
        case changed
        case unchanged
        /// Nothing was pinned, because all pinned files together would take `bytes`, which is more than `limit`.
        case tooLarge(bytes: Int, limit: Int)
    }

    private struct State {
        var limits = HistoryLimits()
        /// The files on disk, newest first. Nil until they are first needed, so that a start does not read all files.
        var files: [HistoryLimits.File]?
    }

    /// The maximum number of damaged files. Older ones are removed.
    private static let maxDamaged = 4
    /// The number of bytes to read to find the time of publication. The first line, and the second up to `publishedAt`,
    /// fit into them.
    private static let headBytes = 512

    let namespace: String
    private let epoch: String
    private let path: String
    private let pinsPath: String
    private let fileSystem: any FileSystem
    private let logger: Logger
    /// The writer, and requests that list or pin snapshots, use it on several threads for disk work. It stays locked
    /// while a file is written, so that writes of the same file do not overlap.
    private let state = Mutex(State())

    /// - Parameters:
    ///   - epoch: the epoch to record in the files
    ///   - directory: the directory of the namespace
    init(namespace: String, epoch: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        self.epoch = epoch
        path = directory + "/generations"
        pinsPath = directory + "/pinned"
        fileSystem = files
        self.logger = logger
    }

    // MARK: Reading

    /// Creates the directory if it does not exist. Removes the temporary files of interrupted writes, and all but the
    /// newest damaged files.
    /// - Returns: the names that were in the directory
    func open() throws(FileError) -> [String] {
        try fileSystem.createDirectory(path)
        let names = try fileSystem.list(path)
        let damaged = names.filter { $0.hasSuffix(".damaged") }.sorted(by: >)
        for name in names.filter({ $0.hasSuffix(".tmp") }) + damaged.dropFirst(Self.maxDamaged) {
            do throws(FileError) {
                try fileSystem.remove(path + "/" + name)
            } catch {
                logger.warning(
                    "namespace \(namespace): cannot remove an obsolete file: \(error)",
                    metadata: ["namespace": "\(namespace)", "error": "\(error)"])
            }
        }
        return names
    }

    /// Reads a generation. Returns nil if the file does not exist or is damaged. A damaged file is renamed.
    /// - Throws: if the file may be readable later, for example after a lack of descriptors, memory or permission, or
    ///   if another version of this program wrote it. In these cases an older generation must not be used instead.
    func load(_ name: String) throws(FileError) -> Generation? {
        let path = path + "/" + name
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
                            + "\(GenerationFile.format); run that version, or move the file away to use the previous generation"
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
            try fileSystem.rename(path, to: path + ".damaged")
        } catch {
            metadata["remains"] = "\(error)"
        }
        logger.error(
            "namespace \(namespace): the saved generation \(path) is damaged and set aside; the previous one is used: \(reason)",
            metadata: metadata)
        return nil
    }

    /// Reads a file, and tries a second time after an I/O error. The error of a bad sector occurs again; other I/O
    /// errors may not.
    private func readTwice(_ path: String) throws(FileError) -> [UInt8]? {
        do throws(FileError) {
            return try fileSystem.read(path)
        } catch {
            guard error.errno == EIO else { throw error }
            return try fileSystem.read(path)
        }
    }

    /// Reads a generation; nil if it does not exist, is damaged or cannot be read.
    package func generation(ofRevision revision: Int) -> Generation? {
        (try? load(Self.name(revision: revision))) ?? nil
    }

    /// Encodes a generation as a file.
    package func encode(_ generation: Generation) -> [UInt8] {
        GenerationFile.encode(generation, epoch: epoch, namespace: namespace)
    }

    // MARK: Limits

    /// Sets the limits. Files are removed at the next write.
    package func configure(_ limits: HistoryLimits) { state.withLock { $0.limits = limits } }

    /// The files that the limits would keep once the newest generations are on disk, newest first.
    /// - Parameter newest: the newest generations, newest first; some may already be on disk
    package func kept(with newest: [HistoryLimits.File]) -> [HistoryLimits.File] {
        state.withLock { state in
            let onDisk = (try? loaded(&state)) ?? []
            let known = Dictionary(onDisk.map { ($0.revision, $0) }) { first, _ in first }
            let oldest = newest.last?.revision ?? 0
            let files = newest.map { known[$0.revision] ?? $0 } + onDisk.filter { $0.revision < oldest }
            let kept = state.limits.kept(of: files)
            return files.filter { kept.contains($0.revision) }
        }
    }

    // MARK: Writing

    /// Writes a generation, and removes those that the limits no longer keep.
    package func write(_ generation: Generation) throws(FileError) {
        let bytes = encode(generation)
        try state.withLock { (state) throws(FileError) -> Void in
            try write(generation, bytes, &state)
            let files = try loaded(&state)
            let kept = state.limits.kept(of: files)
            for file in files where !kept.contains(file.revision) {
                try fileSystem.remove(path + "/" + Self.name(revision: file.revision))
                state.files?.removeAll { $0.revision == file.revision }
            }
        }
    }

    /// Pins or unpins a generation. A generation that is not on disk yet is written before it is pinned.
    package func pin(_ isPinned: Bool, _ generation: Generation) throws(FileError) -> PinResult {
        try state.withLock { (state) throws(FileError) -> PinResult in
            var files = try loaded(&state)
            let known = files.first { $0.revision == generation.revision }
            if known?.isPinned ?? false == isPinned { return .unchanged }
            if isPinned {
                let bytes = known == nil ? encode(generation) : []
                let size = known?.bytes ?? bytes.count
                let total = files.reduce(size) { $0 + ($1.isPinned ? $1.bytes : 0) }
                let limit = state.limits.maximumBytes / 2
                if total > limit { return .tooLarge(bytes: total, limit: limit) }
                if known == nil { try write(generation, bytes, &state) }
                files = try loaded(&state)
            }
            for index in files.indices where files[index].revision == generation.revision {
                files[index].isPinned = isPinned
            }
            let pins = files.filter(\.isPinned).map { JSONValue.int($0.revision) }
            try fileSystem.replace(pinsPath, with: Array((JSONValue.array(pins).compactText + "\n").utf8))
            state.files = files
            return .changed
        }
    }

    private func write(_ generation: Generation, _ bytes: [UInt8], _ state: inout State) throws(FileError) {
        try fileSystem.replace(path + "/" + Self.name(revision: generation.revision), with: bytes)
        var files = try loaded(&state)
        var file = HistoryLimits.File(
            revision: generation.revision, publishedAt: generation.publishedAt, bytes: bytes.count)
        if let index = files.firstIndex(where: { $0.revision <= file.revision }) {
            let isKnown = files[index].revision == file.revision
            file.isPinned = isKnown && files[index].isPinned
            files.replaceSubrange(index..<(isKnown ? index + 1 : index), with: [file])
        } else {
            files.append(file)
        }
        state.files = files
    }

    private func loaded(_ state: inout State) throws(FileError) -> [HistoryLimits.File] {
        if let files = state.files { return files }
        let pins = try pins()
        var files: [HistoryLimits.File] = []
        for name in try fileSystem.list(path).sorted(by: >) where name.hasSuffix(".json") {
            guard let revision = Self.revision(inName: name),
                let head = try fileSystem.head(of: path + "/" + name, bytes: Self.headBytes)
            else { continue }
            files.append(
                HistoryLimits.File(
                    revision: revision, publishedAt: Generation.publishedAt(inHead: head.bytes) ?? 0, bytes: head.size,
                    isPinned: pins.contains(revision)))
        }
        state.files = files
        return files
    }

    /// The name of a revision's file, padded with zeros, so that names sort like their revisions.
    package static func name(revision: Int) -> String {
        let digits = String(revision)
        return String(repeating: "0", count: max(0, 16 - digits.count)) + digits + ".json"
    }

    package static func revision(inName name: String) -> Int? {
        let number = name.firstIndex(of: ".").flatMap { Int(name[..<$0]) } ?? 0
        return ExactIntegers.range.contains(number) ? number : nil
    }

    private func pins() throws(FileError) -> Set<Int> {
        guard let bytes = try fileSystem.read(pinsPath) else { return [] }
        if let list = try? JSONValue(parsing: bytes), list.kind == .array {
            return Set(list.elements.compactMap(\.int))
        }
        logger.error(
            "namespace \(namespace): the list of pinned revisions is damaged, \(pinsPath); pin them again",
            metadata: ["namespace": "\(namespace)", "file": "\(pinsPath)"])
        return []
    }
}

extension Generation {
    /// Finds the time of publication in the first bytes of a file; nil if these bytes do not contain it.
    fileprivate static func publishedAt(inHead bytes: [UInt8]) -> Int? {
        let name = Array(#""publishedAt":"#.utf8)
        guard let start = bytes.firstRange(of: name)?.upperBound else { return nil }
        let digits = bytes[start...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int(String(decoding: digits, as: UTF8.self))
    }
}
