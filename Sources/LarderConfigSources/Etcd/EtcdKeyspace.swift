import FoundationEssentials
import LarderDigest
import LarderEncoding
package import LarderJSON

/// The keys and values of a source at one revision.
struct EtcdKeyspace: Sendable {
    /// Identifies the content that a keyspace had after a read and a number of changes since.
    struct Stamp: Sendable {
        /// The identity of the read from which the keyspace was created.
        fileprivate final class Reading: Sendable {}

        fileprivate let reading: Reading
        /// The number of changes since that read.
        fileprivate let mark: Int
    }

    /// The ID of the cluster.
    let cluster: String
    /// The revision up to which the keyspace is complete.
    private(set) var revision: Int
    /// The revision of the last known change of a value.
    private(set) var changedAt: Int
    /// Values by key.
    private(set) var values: [[UInt8]: [UInt8]] = [:]
    /// The size of all keys and values, in bytes.
    private(set) var bytes = 0
    private let reading = Stamp.Reading()
    private var sum = EtcdDigestSum()
    private var changes = EtcdChanges()

    /// Makes an empty keyspace at the revision of a header.
    init(_ header: EtcdHeader) {
        cluster = header.cluster
        revision = header.revision
        changedAt = header.revision
    }

    /// Whether the keyspace is too large for a document of `documentBytes`. It may have twice the size of the document,
    /// because each key contains the prefix and the names of all its parents.
    func exceeds(_ documentBytes: Int) -> Bool { bytes > 2 * documentBytes }

    /// Adds the pairs of a page of the same read.
    mutating func add(_ pairs: [EtcdPair]) {
        for pair in pairs { set(pair.key, to: pair.value) }
    }

    /// Applies the events of a watch. All events of a revision must be passed together. Events up to the current
    /// revision are skipped.
    /// - Returns: whether a value has changed
    mutating func apply(_ events: [EtcdEvent]) -> Bool {
        let known = revision
        var hasChanged = false
        for event in events where event.pair.modified > known {
            let value = event.isDeletion ? nil : event.pair.value
            if set(event.pair.key, to: value) {
                hasChanged = true
                changedAt = event.pair.modified
                changes.add(event.pair.key)
            }
            advance(to: event.pair.modified)
        }
        return hasChanged
    }

    /// Whether these events would enlarge the keyspace and make it too large for a document of `documentBytes`.
    func exceeds(_ documentBytes: Int, after events: [EtcdEvent]) -> Bool {
        var last: [[UInt8]: Int] = [:]
        for event in events where event.pair.modified > revision {
            last[event.pair.key] = event.isDeletion ? 0 : event.pair.key.count + event.pair.value.count
        }
        let growth = last.reduce(0) { sum, entry in
            sum + entry.value - (values[entry.key].map { entry.key.count + $0.count } ?? 0)
        }
        return growth > 0 && bytes + growth > 2 * documentBytes
    }

    /// Records that the keyspace is complete up to a revision.
    mutating func advance(to newRevision: Int) { revision = max(revision, newRevision) }

    /// Returns this keyspace or, if the previous keyspace has the same values, a copy of the previous one at the
    /// revision of this one. The stamp of the previous keyspace then stays valid.
    func replacing(_ previous: EtcdKeyspace?) -> EtcdKeyspace {
        guard let previous, previous.revision <= revision, cluster == previous.cluster, values == previous.values else {
            return self
        }
        var same = previous
        same.advance(to: revision)
        return same
    }

    /// Whether a parent of the key (a prefix that ends before a slash) is itself a key.
    func hasKey(above key: [UInt8]) -> Bool {
        key.indices.contains { key[$0] == UInt8(ascii: "/") && values[Array(key[..<$0])] != nil }
    }

    // MARK: Changes

    var stamp: Stamp { Stamp(reading: reading, mark: changes.end) }

    /// Returns the keys that have changed since a stamp. Nil if the keys have been read again since then, or if there
    /// were too many changes to store.
    func keys(changedSince stamp: Stamp) -> Set<[UInt8]>? {
        stamp.reading === reading ? changes.keys(since: stamp.mark) : nil
    }

    /// A digest of the keys, their values, and the ID of their cluster.
    var digest: String { sum.digest(of: cluster) }

    /// - Returns: whether the value has changed
    @discardableResult
    private mutating func set(_ key: [UInt8], to value: [UInt8]?) -> Bool {
        let previous = values[key]
        guard previous != value else { return false }
        values[key] = value
        if let previous {
            bytes -= key.count + previous.count
            sum.remove(key, previous)
        }
        if let value {
            bytes += key.count + value.count
            sum.add(key, value)
        }
        return true
    }
}

/// A digest of a set of pairs: the sum of the digests of the pairs. It can therefore be updated pair by pair.
private struct EtcdDigestSum {
    private var lanes = SIMD4<UInt64>()

    mutating func add(_ key: [UInt8], _ value: [UInt8]) { lanes &+= Self.lanes(key, value) }
    mutating func remove(_ key: [UInt8], _ value: [UInt8]) { lanes &-= Self.lanes(key, value) }

    /// - Parameter cluster: the ID of the cluster of the pairs
    func digest(of cluster: String) -> String {
        var hash = SHA256()
        withUnsafeBytes(of: lanes) { hash.update($0) }
        hash.update(cluster.utf8)
        return hash.finalize().prefix(16).hex
    }

    private static func lanes(_ key: [UInt8], _ value: [UInt8]) -> SIMD4<UInt64> {
        var hash = SHA256()
        withUnsafeBytes(of: UInt64(key.count).littleEndian) { hash.update($0) }
        hash.update(key)
        hash.update(value)
        return hash.finalize().withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt64>.self) }
    }
}

/// The most recently changed keys, in the order of the changes.
private struct EtcdChanges {
    /// The maximum number of stored changes. If more changes occur between the creation of two documents, which is
    /// rare, the second document is built from all keys.
    private static let capacity = 1024

    private var keys: [[UInt8]] = []
    /// The number of changes before the first stored one.
    private var start = 0

    var end: Int { start + keys.count }

    mutating func add(_ key: [UInt8]) {
        if keys.count == Self.capacity {
            keys.removeFirst(Self.capacity / 2)
            start += Self.capacity / 2
        }
        keys.append(key)
    }

    func keys(since mark: Int) -> Set<[UInt8]>? {
        guard (start...end).contains(mark) else { return nil }
        return Set(keys[(mark - start)...])
    }
}

/// The range of keys that a source reads.
///
/// Keys in etcd are byte strings. A "directory" is only a common prefix of keys.
package struct EtcdKeys: Sendable, Equatable {
    /// The first key of the range.
    package let first: [UInt8]
    /// The end of the range, which is not part of it; nil for a range of one key.
    package let end: [UInt8]?
}

extension EtcdKeys {
    /// The ranges of the keys that a source reads, at least one.
    static func ranges(of keys: EtcdSourceSettings.Keys) -> [EtcdKeys] {
        switch keys {
        case .key(let key): [EtcdKeys(first: Array(key.utf8), end: nil)]
        case .prefix(let prefix): [EtcdKeys(prefix: prefix)]
        case .prefixes(let prefixes): prefixes.map(EtcdKeys.init(prefix:))
        }
    }

    /// All keys with a prefix.
    init(prefix: String) {
        // Keys in etcd are never empty, so a range cannot begin with the empty prefix. A range from NUL to NUL contains all
        // keys.
        let bytes = Array(prefix.utf8)
        self.init(first: bytes.isEmpty ? [0] : bytes, end: Self.end(ofPrefix: bytes))
    }

    /// The rest of the range after a key, for the next page.
    package func from(after key: [UInt8]) -> EtcdKeys { EtcdKeys(first: key + [0], end: end) }

    /// The smallest key that is larger than all keys with a prefix; NUL, which means "no end", if no such key exists.
    private static func end(ofPrefix prefix: [UInt8]) -> [UInt8] {
        var end = prefix
        while let last = end.popLast() {
            if last < 0xff { return end + [last + 1] }
        }
        return [0]
    }
}

/// Base64 with padding, the format of bytes in the JSON of protocol buffers.
enum Base64 {
    static func text(of bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    static func bytes(of text: String) -> [UInt8]? { Data(base64Encoded: text).map { [UInt8]($0) } }
}

extension JSONWriter {
    /// Writes the members `key` and `range_end` of a request.
    package mutating func write(_ keys: EtcdKeys) {
        member("key", Base64.text(of: keys.first))
        if let end = keys.end { member("range_end", Base64.text(of: end)) }
    }
}
