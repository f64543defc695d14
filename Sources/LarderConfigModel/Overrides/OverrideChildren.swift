import LarderJSON

/// The children of an ``OverrideNode`` by name, as a hash trie. A change copies only the lists and tables on the way to
/// one child, so its cost does not depend on the number of children.
enum OverrideChildren: Sendable {
    /// The children, in no particular order.
    case list([OverrideNode])
    /// Groups of children, indexed by five bits of the hash of their names. A table inside a table uses the next five
    /// bits.
    case table([OverrideChildren])

    private static let bitsPerTable = 5
    /// The maximum length of a list. A longer list becomes a table, unless no bits of the hash are left.
    private static let maxListed = 32

    init() { self = .list([]) }

    func node(named name: OverrideNode.Name, afterBits bits: Int = 0) -> OverrideNode? {
        switch self {
        case .list(let nodes): nodes.first { $0.name == name }
        case .table(let parts):
            parts[Self.index(of: name, afterBits: bits)].node(named: name, afterBits: bits + Self.bitsPerTable)
        }
    }

    /// Replaces or adds the child with a name. Nil removes it.
    mutating func replace(_ name: OverrideNode.Name, by node: OverrideNode?, afterBits bits: Int = 0) {
        switch self {
        case .list(var nodes):
            switch (nodes.firstIndex { $0.name == name }, node) {
            case (let index?, let node?): nodes[index] = node
            case (let index?, nil): nodes.remove(at: index)
            case (nil, let node?): nodes.append(node)
            case (nil, nil): return
            }
            self = .list(nodes)
            if nodes.count > Self.maxListed, bits + Self.bitsPerTable <= Int.bitWidth {
                var parts = [OverrideChildren](repeating: OverrideChildren(), count: 1 << Self.bitsPerTable)
                for node in nodes {
                    parts[Self.index(of: node.name, afterBits: bits)]
                        .replace(node.name, by: node, afterBits: bits + Self.bitsPerTable)
                }
                self = .table(parts)
            }
        case .table(var parts):
            self = .list([])
            parts[Self.index(of: name, afterBits: bits)]
                .replace(name, by: node, afterBits: bits + Self.bitsPerTable)
            self = .table(parts)
        }
    }

    func forEach(_ body: (OverrideNode) -> Void) {
        switch self {
        case .list(let nodes): nodes.forEach(body)
        case .table(let parts): for part in parts { part.forEach(body) }
        }
    }

    private static func index(of name: OverrideNode.Name, afterBits bits: Int) -> Int {
        name.hash >> bits & (1 << bitsPerTable - 1)
    }
}
