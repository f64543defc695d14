/// What is known of a source's keys: all of them, as of one revision.
struct EtcdKeyspace: Sendable, Equatable {
    /// The cluster's id.
    let cluster: String
    /// Every change up to this revision is in here.
    private(set) var revision: Int
    /// The revision from which on the keys are as they are, as far as is known.
    private(set) var changedAt: Int
    /// Values by key.
    private(set) var values: [[UInt8]: [UInt8]] = [:]
    /// The revision of each key's last change.
    private var modified: [[UInt8]: Int] = [:]
    /// Keys and values together.
    private(set) var bytes = 0

    /// What a cluster says at a revision.
    init(_ header: EtcdHeader) {
        cluster = header.cluster
        revision = header.revision
        changedAt = header.revision
    }

    /// Takes the pairs of a page that was read at this revision.
    mutating func add(_ pairs: [EtcdPair]) {
        for pair in pairs { put(pair) }
    }

    /// Takes events that a watch told, those of each revision complete. What is known already is not taken again.
    /// - Returns: whether a key has changed.
    mutating func apply(_ events: [EtcdEvent]) -> Bool {
        let known = revision
        var hasChanged = false
        for event in events where event.pair.modified > known {
            if event.isDeletion { remove(event.pair.key) } else { put(event.pair) }
            revision = max(revision, event.pair.modified)
            hasChanged = true
        }
        if hasChanged { changedAt = revision }
        return hasChanged
    }

    /// Notes that everything up to a revision was told.
    mutating func advance(to newRevision: Int) { revision = max(revision, newRevision) }

    /// Whether a younger reading of the same cluster has the same keys, last changed at the same revisions.
    func isSame(as other: EtcdKeyspace) -> Bool { cluster == other.cluster && modified == other.modified }

    /// The reading that replaces an older one: where it brings nothing new, the keys go on to be as old as they are.
    func replacing(_ former: EtcdKeyspace?) -> EtcdKeyspace {
        guard let former, former.revision <= revision, isSame(as: former) else { return self }
        var reading = self
        reading.changedAt = former.changedAt
        return reading
    }

    private mutating func put(_ pair: EtcdPair) {
        remove(pair.key)
        values[pair.key] = pair.value
        modified[pair.key] = pair.modified
        bytes += pair.key.count + pair.value.count
    }

    private mutating func remove(_ key: [UInt8]) {
        guard let value = values.removeValue(forKey: key) else { return }
        modified[key] = nil
        bytes -= key.count + value.count
    }
}
