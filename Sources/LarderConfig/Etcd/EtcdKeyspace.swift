import Crypto

/// What is known of a source's keys: all of them, as of one revision.
struct EtcdKeyspace: Sendable, Equatable {
    /// The cluster's id.
    let cluster: String
    /// Every change up to this revision is in here.
    private(set) var revision: Int
    /// The revision from which on the values are as they are, as far as is known.
    private(set) var changedAt: Int
    /// Values by key.
    private(set) var values: [[UInt8]: [UInt8]] = [:]
    /// Keys and values together.
    private(set) var bytes = 0

    /// What a cluster says at a revision.
    init(_ header: EtcdHeader) {
        cluster = header.cluster
        revision = header.revision
        changedAt = header.revision
    }

    /// Whether there is more than can make a document of so many bytes: keys are longer than the paths that they become,
    /// but hardly longer than that and their values together.
    func exceeds(_ documentBytes: Int) -> Bool { bytes > 2 * documentBytes }

    /// Takes the pairs of a page that was read at this revision.
    mutating func add(_ pairs: [EtcdPair]) {
        for pair in pairs { set(pair.key, to: pair.value) }
    }

    /// Takes events that a watch told, those of each revision complete. What is known already is not taken again.
    /// - Returns: whether a value has changed.
    mutating func apply(_ events: [EtcdEvent]) -> Bool {
        let known = revision
        var hasChanged = false
        for event in events where event.pair.modified > known {
            let value = event.isDeletion ? nil : event.pair.value
            if set(event.pair.key, to: value) {
                hasChanged = true
                changedAt = event.pair.modified
            }
            advance(to: event.pair.modified)
        }
        return hasChanged
    }

    /// Notes that everything up to a revision was told.
    mutating func advance(to newRevision: Int) { revision = max(revision, newRevision) }

    /// The reading that replaces an older one: where it brings nothing new, the keys go on to be as old as they are.
    func replacing(_ former: EtcdKeyspace?) -> EtcdKeyspace {
        guard let former, former.revision <= revision, cluster == former.cluster, values == former.values else {
            return self
        }
        var reading = self
        reading.changedAt = former.changedAt
        return reading
    }

    /// A digest of the keys and their values, and of the cluster that has them.
    var digest: String {
        var hash = SHA256()
        func add(_ bytes: [UInt8]) {
            withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { hash.update(bufferPointer: $0) }
            hash.update(data: bytes)
        }
        add(Array(cluster.utf8))
        for (key, value) in values.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            add(key)
            add(value)
        }
        return String(hash.finalize().hex.prefix(32))
    }

    /// - Returns: whether the value differs from before.
    @discardableResult
    private mutating func set(_ key: [UInt8], to value: [UInt8]?) -> Bool {
        let former = values[key]
        guard former != value else { return false }
        values[key] = value
        if let former { bytes -= key.count + former.count }
        if let value { bytes += key.count + value.count }
        return true
    }
}
