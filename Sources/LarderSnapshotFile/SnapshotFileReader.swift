import CLinuxShims
import Glibc
package import LarderJSON
import Synchronization

/// A snapshot file that is mapped into memory. Any number of threads can read at the same time. The memory is unmapped
/// when the last reference to this object is released.
///
/// Paths have the syntax of ``JSONPath/init(parsing:)``. A lookup with a malformed path finds nothing; see
/// ``isPath(_:)``.
///
/// `@unchecked Sendable`, because the mapping is accessed through a pointer. Concurrent access is safe: the mapping is
/// read-only and lives as long as this object, and the file is sealed against changes.
package final class SnapshotFileReader: @unchecked Sendable {
    private let bytes: UnsafeRawBufferPointer
    private let index: SnapshotFileIndex
    private let token: InvalidationToken
    /// The epoch if it is not that of the file.
    private let otherEpoch: String?

    /// The revision of the snapshot.
    package var revision: Int { Int(clamping: index.revision) }

    /// The epoch of the revision: 16 hexadecimal digits, unless another text was passed to the initializer.
    package var epoch: String {
        if let otherEpoch { return otherEpoch }
        let digits = String(index.epoch, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Whether this is the newest snapshot that the agent has announced to this process. False once a newer snapshot is
    /// announced, or once the connection to the agent ends, because announcements can then no longer arrive. Reading
    /// this property takes one atomic load.
    package var isCurrent: Bool { token.isValid }

    /// Calls a closure when ``isCurrent`` becomes false; at once if it is already. The closure must not block.
    package func whenOutdated(_ handler: @escaping @Sendable () -> Void) { token.whenInvalid(handler) }

    /// The paths of secrets, as patterns: `*` matches any one segment, and `**` any number of segments, including none.
    /// Everything inside a secret is secret, too. Nil if the patterns are unknown, because the file did not come from
    /// the agent.
    package let secretPaths: [String]?

    /// The size of the snapshot file in bytes, including its index.
    package var byteCount: Int { bytes.count }

    /// Maps a snapshot file. The caller keeps the descriptor and may close it afterwards.
    ///
    /// - Parameters:
    ///   - descriptor: the descriptor of the file
    ///   - token: records whether the snapshot is the newest one
    ///   - secretPaths: the patterns of secrets; nil if they are unknown
    ///   - epoch: the epoch of the revision if it is not a number, as in tests of programs; nil for that of the file
    /// - Throws: `notSealed` if another process could still change or shorten the file, which could crash this process
    ///   while it reads; `systemFailed` if the file cannot be mapped; `notASnapshotFile`, `unsupportedVersion` or
    ///   `damaged` if its content is invalid
    package init(
        descriptor: CInt, token: InvalidationToken = InvalidationToken(), secretPaths: [String]? = nil,
        epoch: String? = nil
    ) throws(SnapshotFileError) {
        (self.token, self.secretPaths, otherEpoch) = (token, secretPaths, epoch)
        let needed = CInt(LARDER_SEAL_SHRINK) | CInt(LARDER_SEAL_WRITE)
        let seals = larder_get_seals(descriptor)
        guard seals >= 0, seals & needed == needed else {
            throw SnapshotFileError(
                .notSealed, "the snapshot file is not sealed: it could change while it is read")
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw SealedFile.failed("stat the snapshot file") }
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

    /// The result of a lookup.
    package enum Lookup {
        /// The path is malformed.
        case malformed
        case missing
        /// The compact JSON text of the value. The bytes are valid as long as the reader.
        case found(UnsafeRawBufferPointer)
    }

    /// Finds the value at a path. Not generic, because a generic function is not specialized for other modules.
    package func lookUp(_ path: String) -> Lookup {
        var path = path
        return path.withUTF8 { path in
            PathKey.with(UnsafeRawBufferPointer(path), seed: index.seed) { key in
                guard let key else { return .malformed }
                guard let found = index.find(key, in: bytes) else { return .missing }
                return .found(UnsafeRawBufferPointer(rebasing: bytes[found.text]))
            }
        }
    }

    /// Whether a text is a path. Allocates nothing, unless the text is longer than 1 KiB.
    package static func isPath(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { PathKey.with(UnsafeRawBufferPointer($0), seed: 0) { $0 != nil } }
    }

    /// Calls `body` with the compact JSON text of the value at a path, without a copy; with nil if there is no value.
    /// The bytes are valid only during the call.
    ///
    /// - Parameters:
    ///   - path: the path. It must not lead into an array, because only members of objects are found.
    ///   - body: receives the text of the value
    package func withText<R>(at path: String, _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try withExtendedLifetime(self) {
            guard let found = find(path) else { return try body(nil) }
            return try body(UnsafeRawBufferPointer(rebasing: bytes[found.text]))
        }
    }

    /// Calls `body` with the compact JSON text of the value that a list of member names leads to, without a copy; with
    /// nil if there is no value. The bytes are valid only during the call.
    ///
    /// The names are not parsed: `["a.b"]` is the member `a.b` of the document, and `["a", "b"]` is the member `b` of
    /// `a`. Without names, the value is the whole document. Allocates nothing, unless the names are longer than 1 KiB.
    package func withText<R>(at names: [String], _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try withExtendedLifetime(self) {
            let found = PathKey.with(names, seed: index.seed) { index.find($0, in: bytes) }
            guard let found else { return try body(nil) }
            return try body(UnsafeRawBufferPointer(rebasing: bytes[found.text]))
        }
    }

    /// Returns a copy of the compact JSON text of the value at a path; nil if there is no value.
    package func bytes(at path: String) -> [UInt8]? {
        withText(at: path) { text in text.map { [UInt8]($0) } }
    }

    /// Returns the integer at a path; nil if there is no integer, or if it does not fit into `Int`. Allocates nothing.
    package func int(at path: String) -> Int? {
        withText(at: path) { text in text.flatMap(JSONValue.int(ofText:)) }
    }

    /// Returns the number at a path, rounded to the nearest `Double`; nil if there is no number, or if the number is
    /// out of range. Allocates nothing for numbers of up to 15 characters.
    package func double(at path: String) -> Double? {
        withText(at: path) { text in text.flatMap(ScalarText.double) }
    }

    /// Returns the Boolean at a path; nil if there is no Boolean. Allocates nothing.
    package func bool(at path: String) -> Bool? {
        withText(at: path) { text in text.flatMap(ScalarText.bool) }
    }

    /// Returns the string at a path, with escapes resolved; nil if there is no string. Allocates nothing for strings of
    /// up to 15 bytes without escapes.
    package func string(at path: String) -> String? {
        withText(at: path) { text in text.flatMap(ScalarText.string) }
    }

    /// Returns whether the value at a path is a string equal to `text`. Allocates memory only if the string in the
    /// snapshot has escapes.
    package func isString(_ text: String, at path: String) -> Bool {
        withText(at: path) { found in found.map { ScalarText.equals($0, text) } ?? false }
    }

    /// Returns a copy of the value at a path; nil if there is no value. Unlike in other lookups, the path may lead into
    /// arrays.
    /// - Throws: `invalidPath` if the path is malformed; `damaged` if the text of the file is not JSON
    package func value(at path: String = "") throws(SnapshotFileError) -> JSONValue? {
        let parsed: JSONPath
        do throws(JSONError) {
            parsed = try JSONPath(parsing: path)
        } catch {
            throw SnapshotFileError(.invalidPath, "\"\(path)\" is not a valid path: \(error.reason)")
        }
        return try value(at: parsed)
    }

    /// Returns a copy of the value at a path; nil if there is no value. Unlike in other lookups, the path may lead into
    /// arrays.
    /// - Throws: `damaged` if the text of the file is not JSON
    package func value(at path: JSONPath) throws(SnapshotFileError) -> JSONValue? {
        // The index has no entries for values inside arrays. Such a value is found by parsing its nearest ancestor that
        // has an entry.
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
            PathKey.with(UnsafeRawBufferPointer(path), seed: index.seed) { key in
                key.flatMap { index.find($0, in: bytes) }
            }
        }
    }
}

/// Parses scalars from their JSON text.
package enum ScalarText {
    package static func bool(_ text: UnsafeRawBufferPointer) -> Bool? {
        if text.elementsEqual("true".utf8) { return true }
        return text.elementsEqual("false".utf8) ? false : nil
    }

    /// Parses a number and rounds it to the nearest `Double`. Returns nil if the text is not a number or is out of
    /// range.
    package static func double(_ text: UnsafeRawBufferPointer) -> Double? {
        // Swift's `Double` also parses "nan" and hexadecimal digits, which are not numbers in JSON.
        guard let first = text.first, first == UInt8(ascii: "-") || first &- UInt8(ascii: "0") < 10,
            !text.contains(where: { $0 | 0x20 == UInt8(ascii: "x") || $0 | 0x20 == UInt8(ascii: "n") }),
            let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite
        else { return nil }
        return value
    }

    /// Returns whether the text is a JSON string equal to `expected`.
    static func equals(_ text: UnsafeRawBufferPointer, _ expected: String) -> Bool {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return false }
        let content = text[1..<(text.count - 1)]
        if content.contains(UInt8(ascii: "\\")) { return string(text)?.utf8.elementsEqual(expected.utf8) ?? false }
        return content.elementsEqual(expected.utf8)
    }

    /// Returns the content of a JSON string, with escapes resolved; nil if the text is not a string.
    package static func string(_ text: UnsafeRawBufferPointer) -> String? {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return nil }
        let content = text[1..<(text.count - 1)]
        if !content.contains(UInt8(ascii: "\\")) {
            return String(validating: UnsafeRawBufferPointer(rebasing: content), as: UTF8.self)
        }
        return (try? JSONValue(parsing: [UInt8](text)))?.string
    }
}

/// Records whether a snapshot is the newest one that was announced to this process.
package final class InvalidationToken: Sendable {
    private let isCurrent = Atomic(true)
    private let handlers = Mutex<[@Sendable () -> Void]>([])

    /// Creates the token of a snapshot that is the newest one.
    package init() {}

    /// False once a newer snapshot is announced, or once announcements can no longer arrive.
    package var isValid: Bool { isCurrent.load(ordering: .acquiring) }

    /// Records that the snapshot may no longer be the newest. This cannot be undone.
    package func invalidate() {
        isCurrent.store(false, ordering: .releasing)
        let handlers = handlers.withLock { handlers in
            defer { handlers = [] }
            return handlers
        }
        for handler in handlers { handler() }
    }

    /// Calls a closure when the token becomes invalid; at once if it is already. The closure must not block.
    package func whenInvalid(_ handler: @escaping @Sendable () -> Void) {
        // ``invalidate()`` changes the flag before it takes the handlers, so it finds a handler that is added here.
        let isAdded = handlers.withLock { handlers in
            let isValid = isValid
            if isValid { handlers.append(handler) }
            return isValid
        }
        if !isAdded { handler() }
    }
}

/// A file in memory that cannot be changed (memfd_create(2), fcntl(2) "File Sealing").
package final class SealedFile: Sendable {
    /// The descriptor of the file, close-on-exec. It is closed when the last reference to this object is released.
    package let descriptor: CInt
    /// The length of the file in bytes.
    package let byteCount: Int

    /// Creates a file, fills it with `write`, and seals it.
    ///
    /// - Parameters:
    ///   - byteCount: the length of the file
    ///   - name: the name shown in /proc/PID/fd and /proc/PID/maps
    ///   - write: fills the memory of the file, which initially is zero
    /// - Throws: `systemFailed`
    package init(
        byteCount: Int, name: String, _ write: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(SnapshotFileError) {
        let descriptor = larder_memfd_create(name)
        guard descriptor >= 0 else { throw Self.failed("create a file in memory") }
        do throws(SnapshotFileError) {
            if byteCount > 0 { try Self.fill(descriptor, byteCount, write) }
            // Processes that receive the descriptor can reopen the file through /proc. The mode lets them open it only
            // for reading.
            guard fchmod(descriptor, 0o444) == 0, Self.seal(descriptor) else {
                throw Self.failed("seal a file in memory")
            }
        } catch {
            close(descriptor)
            throw error
        }
        (self.descriptor, self.byteCount) = (descriptor, byteCount)
    }

    deinit { close(descriptor) }

    /// Seals a file. Repeats an attempt that fails with EBUSY (fcntl(2)): a child of this process may have the memory of
    /// the file until it executes its program, and on a busy machine the kernel may refer to pages for a moment.
    private static func seal(_ descriptor: CInt) -> Bool {
        for _ in 0..<20 {
            if larder_add_seals(descriptor, CInt(LARDER_SEAL_ALL)) == 0 { return true }
            if errno != EBUSY { return false }
            usleep(1000)
        }
        return false
    }

    private static func fill(
        _ descriptor: CInt, _ byteCount: Int, _ write: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(SnapshotFileError) {
        // Allocate all memory now. If the system ran out of memory during a write through the mapping, SIGBUS would
        // kill this process.
        let code = posix_fallocate(descriptor, 0, off_t(byteCount))
        guard code == 0 else { throw failed("allocate \(byteCount) bytes for a file in memory", code) }
        guard let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), start != MAP_FAILED
        else { throw failed("map a file in memory") }
        write(UnsafeMutableRawBufferPointer(start: start, count: byteCount))
        // A file with a writable mapping cannot be sealed.
        munmap(start, byteCount)
    }

    static func failed(_ what: String, _ code: CInt = errno) -> SnapshotFileError {
        SnapshotFileError(.systemFailed, "cannot \(what): \(String(cString: strerror(code)))")
    }
}
