/// The entries of an ``OverrideLayer``, in their order.
///
/// Each publication keeps a copy, and the next change is made to another one: copies share all blocks but those that were
/// changed since, and what is at a path is found without looking through all.
struct OverrideEntries: RandomAccessCollection, Equatable, Sendable {
    typealias Entry = OverrideLayer.Entry

    /// How many entries a block has; the last one may have fewer.
    private static let blockSize = 32

    private var blocks: [[Entry]] = []
    private(set) var count = 0
    /// Where entries are, by the fingerprints of their paths.
    private var positions: [Int: Int] = [:]
    /// The fingerprints of paths below which there are entries, and of those that are not the only ones to have theirs.
    private var unclear: Set<Int> = []

    init() {}

    init(_ entries: some Sequence<Entry>) {
        for entry in entries { append(entry) }
    }

    var startIndex: Int { 0 }
    var endIndex: Int { count }

    subscript(position: Int) -> Entry {
        get { blocks[position / Self.blockSize][position % Self.blockSize] }
        set { blocks[position / Self.blockSize][position % Self.blockSize] = newValue }
    }

    static func == (left: Self, right: Self) -> Bool { left.elementsEqual(right) }

    /// Adds one behind all others.
    mutating func append(_ entry: Entry) {
        for fingerprint in entry.path.fingerprintsAbove where !unclear.contains(fingerprint) {
            unclear.insert(fingerprint)
        }
        if positions[entry.fingerprint] == nil {
            positions[entry.fingerprint] = count
        } else {
            unclear.insert(entry.fingerprint)
        }
        if count.isMultiple(of: Self.blockSize) { blocks.append([]) }
        blocks[blocks.count - 1].append(entry)
        count += 1
    }

    /// Where the entries are that are at the path of this one or below it.
    func positions(within entry: Entry) -> [Int] {
        if entry.path.isEmpty || unclear.contains(entry.fingerprint) {
            return indices.filter { self[$0].isWithin(entry) }
        }
        guard let position = positions[entry.fingerprint], self[position].isWithin(entry) else { return [] }
        return [position]
    }
}
