public import LarderJSON
package import LarderSnapshotFile
import Synchronization

/// A snapshot that is mapped into this process's memory from a file that the agent passed. A lookup makes no system
/// call and copies nothing. Any number of threads can read at the same time.
///
/// ```swift
/// let snapshot = try await client.config.mappedSnapshot()
/// let limit = try snapshot.int(at: "search.limit") ?? 10
/// let search = try snapshot.value(at: "search")
/// let isDark = try snapshot.isString("dark", at: "ui.theme")
/// let (name, ratio) = (try snapshot.string(at: "name"), try snapshot.double(at: "ratio"))
/// let isOn = try snapshot.bool(at: "search.enabled") ?? false
/// let bytes = try snapshot.withText(at: "search") { $0?.count ?? 0 }
/// ```
///
/// A snapshot never changes: a newer snapshot is another value. All processes that map the same snapshot share its
/// memory. The memory is unmapped when the last copy of the value is released.
///
/// Paths have the syntax of ``JSONPath/init(parsing:)``: empty for the whole document, names separated by dots, or, if
/// the path begins with `/`, a JSON Pointer (RFC 6901). A lookup with a malformed path throws `invalidArgument`.
public struct MappedSnapshot: Sendable, Equatable {
    package let file: SnapshotFileReader

    package init(_ file: SnapshotFileReader) { self.file = file }

    /// Whether two values are the same mapping of a file.
    public static func == (left: Self, right: Self) -> Bool { left.file === right.file }

    /// The revision of the snapshot.
    public var revision: Int { file.revision }

    /// The epoch of the revision: 16 hexadecimal digits.
    public var epoch: String { file.epoch }

    /// Whether this is the newest snapshot that the agent has announced to this process. False once a newer snapshot is
    /// announced, or once the connection to the agent ends, because announcements can then no longer arrive. Reading
    /// this property takes one atomic load.
    public var isCurrent: Bool { file.isCurrent }

    /// Calls a closure when ``isCurrent`` becomes false; at once if it is already. The closure must not block.
    package func whenOutdated(_ handler: @escaping @Sendable () -> Void) { file.whenOutdated(handler) }

    /// The paths of secrets, as patterns: `*` matches any one segment, and `**` any number of segments, including none.
    /// Everything inside a secret is secret, too. Nil if the patterns are unknown, because the file did not come from
    /// the agent.
    public var secretPaths: [String]? { file.secretPaths }

    /// The size of the snapshot file in bytes, including its index.
    public var byteCount: Int { file.byteCount }

    /// Calls `body` with the compact JSON text of the value at a path, without a copy; with nil if there is no value.
    /// The bytes are valid only during the call.
    /// - Parameters:
    ///   - path: the path. It must not lead into an array, because only members of objects are found.
    ///   - body: receives the text of the value.
    public func withText<R>(
        at path: String, _ body: (UnsafeRawBufferPointer?) -> R
    ) throws(LarderClientError) -> R {
        try withExtendedLifetime(file) { () throws(LarderClientError) -> R in
            switch file.lookUp(path) {
            case .found(let text): return body(text)
            case .missing: return body(nil)
            case .malformed: throw Self.malformed(path)
            }
        }
    }

    /// Calls `body` with the compact JSON text of the value that a list of member names leads to, without a copy; with
    /// nil if there is no value. The bytes are valid only during the call.
    ///
    /// The names are not parsed: `["a.b"]` is the member `a.b` of the document, and `["a", "b"]` is the member `b` of
    /// `a`. Without names, the value is the whole document. Allocates nothing, unless the names are longer than 1 KiB.
    ///
    /// ```swift
    /// let snapshot = try await client.config.mappedSnapshot()
    /// let length = snapshot.withText(at: ["hosts", "example.org"]) { $0?.count }
    /// ```
    public func withText<R>(at names: [String], _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try file.withText(at: names, body)
    }

    /// Returns the integer at a path; nil if there is no integer, or if it does not fit into `Int`. Allocates nothing.
    public func int(at path: String) throws(LarderClientError) -> Int? { try checked(file.int(at: path), path) }

    /// Returns the number at a path, rounded to the nearest `Double`; nil if there is no number, or if the number is
    /// out of range. Allocates nothing for numbers of up to 15 characters.
    public func double(at path: String) throws(LarderClientError) -> Double? {
        try checked(file.double(at: path), path)
    }

    /// Returns the Boolean at a path; nil if there is no Boolean. Allocates nothing.
    public func bool(at path: String) throws(LarderClientError) -> Bool? { try checked(file.bool(at: path), path) }

    /// Returns the string at a path, with escapes resolved; nil if there is no string. Allocates nothing for strings of
    /// up to 15 bytes without escapes.
    public func string(at path: String) throws(LarderClientError) -> String? {
        try checked(file.string(at: path), path)
    }

    /// Returns whether the value at a path is a string equal to `text`. Allocates memory only if the string in the
    /// snapshot has escapes.
    public func isString(_ text: String, at path: String) throws(LarderClientError) -> Bool {
        if file.isString(text, at: path) { return true }
        if !SnapshotFileReader.isPath(path) { throw Self.malformed(path) }
        return false
    }

    /// Returns a copy of the value at a path; nil if there is no value. Unlike in other lookups, the path may lead into
    /// arrays.
    /// - Throws: `invalidArgument` if the path is malformed; `protocolViolation` if the file is damaged.
    public func value(at path: String = "") throws(LarderClientError) -> JSONValue? {
        try value(at: JSONPath(argument: path))
    }

    /// Returns a copy of the value at a path; nil if there is no value. Unlike in other lookups, the path may lead into
    /// arrays.
    /// - Throws: `protocolViolation` if the file is damaged.
    public func value(at path: JSONPath) throws(LarderClientError) -> JSONValue? {
        do throws(SnapshotFileError) {
            return try file.value(at: path)
        } catch {
            throw LarderClientError(.protocolViolation, error.reason)
        }
    }

    /// Returns a value that was found. A path is checked only if nothing was found at it, because the lookup of a value
    /// has already parsed the path.
    private func checked<Value>(_ value: Value?, _ path: String) throws(LarderClientError) -> Value? {
        if value == nil, !SnapshotFileReader.isPath(path) { throw Self.malformed(path) }
        return value
    }

    private static func malformed(_ path: String) -> LarderClientError {
        do throws(LarderClientError) {
            _ = try JSONPath(argument: path)
            return LarderClientError(
                .invalidArgument, "\"\(path)\" is not a valid path",
                advice: "write a path such as search.limit, or a JSON Pointer such as /search/limit")
        } catch {
            return error
        }
    }
}

/// A client's cache of the newest mapped snapshot of each namespace.
final class MappedSnapshotStore: Sendable {
    private struct CachedSnapshot {
        var snapshot: MappedSnapshot
        var token: InvalidationToken
        /// The subscription that invalidates `snapshot` when the agent announces a newer one.
        var subscription: OpenSubscription
    }

    private let cached = Mutex<[String: CachedSnapshot]>([:])

    /// Returns the cached snapshot of a namespace if it is current.
    func current(_ namespace: String) -> MappedSnapshot? {
        guard let snapshot = cached.withLock({ $0[namespace]?.snapshot }), snapshot.isCurrent else { return nil }
        return snapshot
    }

    /// Caches a snapshot, with its token and the subscription that invalidates it, unless a concurrent call has cached
    /// one that is current and not older. A snapshot that is replaced is invalidated, because its subscription ends.
    /// - Returns: the snapshot that is cached now.
    func keep(
        _ snapshot: MappedSnapshot, _ token: InvalidationToken, _ subscription: OpenSubscription,
        of namespace: String
    ) -> MappedSnapshot {
        let (kept, replaced) = cached.withLock { cached -> (MappedSnapshot, CachedSnapshot?) in
            if let other = cached[namespace]?.snapshot, other.isCurrent, other.epoch == snapshot.epoch,
                other.revision >= snapshot.revision
            {
                return (other, nil)
            }
            let new = CachedSnapshot(snapshot: snapshot, token: token, subscription: subscription)
            return (snapshot, cached.updateValue(new, forKey: namespace))
        }
        // The replaced values are released outside the lock, because releasing them ends a subscription.
        replaced?.token.invalidate()
        return kept
    }
}
