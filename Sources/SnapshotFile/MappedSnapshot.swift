import CLinuxShims
public import JSON

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A snapshot in this process's memory, mapped from the file that the agent passed. Looking a value up takes no system call
/// and copies nothing; any number of threads may do it at once.
///
/// `@unchecked Sendable`, because the mapping is reached through a pointer: it is read-only, of a file that is sealed
/// against every change, and it lives as long as this object.
public final class MappedSnapshot: @unchecked Sendable {
    private let bytes: UnsafeRawBufferPointer
    private let index: SnapshotFileIndex

    /// The snapshot's revision.
    public var revision: Int { Int(clamping: index.revision) }

    /// The epoch in which the revision counts, as the agent writes it.
    public var epoch: String {
        let digits = String(index.epoch, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Maps a snapshot file. The descriptor stays the caller's and is not needed after.
    ///
    /// - Throws: `notSealed` where somebody could still change the file: reading it then could end this process;
    ///   `systemFailed`; `notASnapshotFile`, `unsupportedVersion` and `damaged` for what is in it
    public init(descriptor: CInt) throws(SnapshotFileError) {
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

    /// Hands over the compact JSON text of the value at a path; nil if there is none. The bytes are valid during the call.
    ///
    /// - Parameter path: names with dots between them, or an RFC 6901 pointer. What is in an array has no place of its own.
    public func withText<R>(at path: String, _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try withExtendedLifetime(self) {
            guard let found = find(path) else { return try body(nil) }
            return try body(UnsafeRawBufferPointer(rebasing: bytes[found.text]))
        }
    }

    /// The integer at a path; nil where there is none that fits.
    public func int(at path: String) -> Int? {
        withText(at: path) { text in text.flatMap(ScalarText.int) }
    }

    /// The truth value at a path; nil where there is none.
    public func bool(at path: String) -> Bool? {
        withText(at: path) { text in text.flatMap(ScalarText.bool) }
    }

    /// The string at a path, escapes resolved; nil where there is none.
    public func string(at path: String) -> String? {
        withText(at: path) { text in text.flatMap(ScalarText.string) }
    }

    /// The value at a path, in memory of its own; nil where there is none. Here a path may lead into arrays.
    /// - Throws: `damaged` where the text is no JSON
    public func value(at path: JSONPath) throws(SnapshotFileError) -> JSONValue? {
        var depth = path.segments.count
        while true {
            let head = JSONPath(Array(path.segments.prefix(depth)))
            let text = withText(at: head.pointer) { $0.map { [UInt8]($0) } }
            guard let text else {
                if depth == 0 { return nil }
                depth -= 1
                continue
            }
            do throws(JSONError) {
                let value = try JSONValue(parsing: text)
                return depth == path.segments.count
                    ? value
                    : value.kind == .array ? value.value(at: JSONPath(Array(path.segments.dropFirst(depth)))) : nil
            } catch {
                throw SnapshotFileError(.damaged, "the snapshot file is damaged: \(error)")
            }
        }
    }

    private func find(_ path: String) -> SnapshotFileIndex.Found? {
        var path = path
        return path.withUTF8 { path in
            PathKey.with(UnsafeRawBufferPointer(path)) { key in key.flatMap { index.find($0, in: bytes) } }
        }
    }
}
