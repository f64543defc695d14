import CLinuxShims
import Glibc
public import LarderJSON
import Synchronization

/// A snapshot in this process's memory, mapped from the file that the agent passed. Looking a value up takes no system call
/// and copies nothing; any number of threads may do it at once.
///
/// ```swift
/// let limit = snapshot.int(at: "search.limit") ?? 10
/// let search = try snapshot.value(at: "search")
/// ```
///
/// It never changes: a newer snapshot is another object. Its memory is shared by all processes that map the same one, and
/// given back with the last reference to it.
///
/// Paths are written as ``JSONPath/init(parsing:)`` reads them: empty for the whole document, names with dots between them,
/// or, where it begins with `/`, a pointer (RFC 6901). There is nothing at a text that is no path.
///
/// `@unchecked Sendable`, because the mapping is reached through a pointer: it is read-only, of a file that is sealed
/// against every change, and it lives as long as this object.
public final class MappedSnapshot: @unchecked Sendable {
    private let bytes: UnsafeRawBufferPointer
    private let index: SnapshotFileIndex
    private let token: InvalidationToken

    /// The snapshot's revision.
    public var revision: Int { Int(clamping: index.revision) }

    /// The epoch in which the revision counts, as the agent writes it.
    public var epoch: String {
        let digits = String(index.epoch, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Whether this is the newest snapshot, as far as this process was told: one look at a word of memory. False once a newer
    /// one was announced, and once nobody would announce it any more because the connection to the agent is gone.
    public var isCurrent: Bool { token.isValid }

    /// The size of the file in bytes.
    public var byteCount: Int { bytes.count }

    /// Maps a snapshot file. The descriptor stays the caller's and is not needed after.
    ///
    /// - Parameters:
    ///   - descriptor: of the file
    ///   - token: what says whether the snapshot is the newest one
    /// - Throws: `notSealed` where somebody could still change the file: reading it then could end this process;
    ///   `systemFailed`; `notASnapshotFile`, `unsupportedVersion` and `damaged` for what is in it
    public init(
        descriptor: CInt, token: InvalidationToken = InvalidationToken()
    ) throws(SnapshotFileError) {
        self.token = token
        let needed = CInt(LARDER_SEAL_SHRINK) | CInt(LARDER_SEAL_WRITE)
        let seals = larder_get_seals(descriptor)
        guard seals >= 0, seals & needed == needed else {
            throw SnapshotFileError(
                .notSealed, "the snapshot file is not sealed: it could change while it is read")
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw SealedFile.failed("look at the snapshot file") }
        guard status.st_size > 0 else { throw SnapshotFileError(.notASnapshotFile, "the snapshot file is empty") }
        let size = Int(status.st_size)
        guard let start = mmap(nil, size, PROT_READ, MAP_SHARED, descriptor, 0), start != MAP_FAILED else {
            throw SealedFile.failed("map the snapshot file")
        }
        let mapping = UnsafeRawBufferPointer(start: start, count: size)
        do throws(SnapshotFileError) {
            index = try SnapshotFileIndex(mapping)
        } catch {
            munmap(start, size)
            throw error
        }
        bytes = mapping
    }

    deinit { munmap(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count) }

    /// Hands over the compact JSON text of the value at a path, where it is in the mapping; nil if there is none. The bytes
    /// are valid during the call.
    ///
    /// - Parameter path: what is in an array has no place of its own
    public func withText<R>(at path: String, _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try withExtendedLifetime(self) {
            guard let found = find(path) else { return try body(nil) }
            return try body(UnsafeRawBufferPointer(rebasing: bytes[found.text]))
        }
    }

    /// The compact JSON text of the value at a path, copied; nil if there is none.
    public func bytes(at path: String) -> [UInt8]? {
        withText(at: path) { text in text.map { [UInt8]($0) } }
    }

    /// The integer at a path; nil where there is none that fits. Nothing is allocated.
    public func int(at path: String) -> Int? {
        withText(at: path) { text in text.flatMap(ScalarText.int) }
    }

    /// The number at a path, as near as a Double comes; nil where there is none, or one beyond its range. Nothing is
    /// allocated for numbers of up to 15 characters.
    public func double(at path: String) -> Double? {
        withText(at: path) { text in text.flatMap(ScalarText.double) }
    }

    /// The truth value at a path; nil where there is none. Nothing is allocated.
    public func bool(at path: String) -> Bool? {
        withText(at: path) { text in text.flatMap(ScalarText.bool) }
    }

    /// The string at a path, escapes resolved; nil where there is none. Nothing is allocated for one of up to 15 bytes
    /// without escapes.
    public func string(at path: String) -> String? {
        withText(at: path) { text in text.flatMap(ScalarText.string) }
    }

    /// Whether there is a string at a path that says `text`. Nothing is allocated unless it has escapes.
    public func isString(_ text: String, at path: String) -> Bool {
        withText(at: path) { found in found.map { ScalarText.says($0, text) } ?? false }
    }

    /// The value at a path, in memory of its own; nil where there is none. Here a path may lead into arrays.
    /// - Throws: `invalidPath`; `damaged` where the text is no JSON
    public func value(at path: String = "") throws(SnapshotFileError) -> JSONValue? {
        let parsed: JSONPath
        do throws(JSONError) {
            parsed = try JSONPath(parsing: path)
        } catch {
            throw SnapshotFileError(.invalidPath, "\"\(path)\" is no path: \(error.reason)")
        }
        return try value(at: parsed)
    }

    /// The value at a path, in memory of its own; nil where there is none. Here a path may lead into arrays.
    /// - Throws: `damaged` where the text is no JSON
    public func value(at path: JSONPath) throws(SnapshotFileError) -> JSONValue? {
        // What is in an array is found by reading the nearest value around it that has a place of its own.
        let segments = path.segments
        for depth in stride(from: segments.count, through: 0, by: -1) {
            let nearest = depth == segments.count ? path : JSONPath(Array(segments.prefix(depth)))
            guard let text = bytes(at: nearest.pointer) else { continue }
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: text)
            } catch {
                throw SnapshotFileError(.damaged, "the snapshot file is damaged: \(error)")
            }
            if depth == segments.count { return value }
            return value.kind == .array ? value.value(at: JSONPath(Array(segments.dropFirst(depth)))) : nil
        }
        return nil
    }

    private func find(_ path: String) -> SnapshotFileIndex.Found? {
        var path = path
        return path.withUTF8 { path in
            PathKey.with(UnsafeRawBufferPointer(path)) { key in key.flatMap { index.find($0, in: bytes) } }
        }
    }
}

/// Tells whether a mapped snapshot is the newest one.
public final class InvalidationToken: Sendable {
    private let isCurrent = Atomic(true)

    /// Creates a token for the newest snapshot.
    public init() {}

    /// False once a newer snapshot is known. False also if updates can no longer arrive.
    public var isValid: Bool { isCurrent.load(ordering: .acquiring) }

    /// Makes the token invalid for good.
    public func invalidate() { isCurrent.store(false, ordering: .releasing) }
}
