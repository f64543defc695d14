/// Lists of slots that are linked through one array: 20 bytes for each slot, whatever list it is in, and nothing is
/// allocated when it moves from one to another.
struct SlotLists: Sendable {
    /// One list, in the order in which slots came to it.
    struct List: Sendable {
        fileprivate var first = none
        fileprivate var last = none
        fileprivate(set) var count = 0
        fileprivate(set) var bytes = 0
        /// Which it is; 0 is no list.
        let number: UInt8

        init(number: UInt8) { self.number = number }
    }

    /// One slot.
    struct Node: Sendable {
        fileprivate var previous = none
        fileprivate var next = none
        /// More than 4 GiB count as 4 GiB, both when they come and when they go.
        fileprivate(set) var size: UInt32 = 0
        fileprivate(set) var fingerprint: UInt32 = 0
        /// The list that it is in, or 0.
        fileprivate(set) var list: UInt8 = 0
        /// How often it was used, as far as the policy counts.
        var uses: UInt8 = 0
    }

    private static let none = UInt32.max
    private(set) var nodes: [Node] = []

    /// Makes a slot known and puts it at the end of a list.
    mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int, into list: inout List) {
        while nodes.count <= Int(slot) { nodes.append(Node()) }
        assert(nodes[Int(slot)].list == 0, "the slot holds another image")
        nodes[Int(slot)] = Node(size: UInt32(clamping: size), fingerprint: fingerprint)
        append(slot, to: &list)
    }

    /// The list that a slot is in, or 0.
    func list(of slot: UInt32) -> UInt8 { Int(slot) < nodes.count ? nodes[Int(slot)].list : 0 }

    func uses(of slot: UInt32) -> UInt8 { nodes[Int(slot)].uses }

    mutating func setUses(_ uses: UInt8, of slot: UInt32) { nodes[Int(slot)].uses = uses }

    func first(of list: List) -> UInt32? { list.first == Self.none ? nil : list.first }

    mutating func append(_ slot: UInt32, to list: inout List) {
        let index = Int(slot)
        nodes[index].list = list.number
        nodes[index].previous = list.last
        nodes[index].next = Self.none
        if list.last == Self.none { list.first = slot } else { nodes[Int(list.last)].next = slot }
        list.last = slot
        list.count += 1
        list.bytes += Int(nodes[index].size)
    }

    /// Takes a slot out of the list that it is in.
    mutating func unlink(_ slot: UInt32, from list: inout List) {
        let node = nodes[Int(slot)]
        assert(node.list == list.number)
        if node.previous == Self.none { list.first = node.next } else { nodes[Int(node.previous)].next = node.next }
        if node.next == Self.none { list.last = node.previous } else { nodes[Int(node.next)].previous = node.previous }
        nodes[Int(slot)].list = 0
        list.count -= 1
        list.bytes -= Int(node.size)
    }

    /// Puts a slot at the end of its list.
    mutating func requeue(_ slot: UInt32, in list: inout List) {
        unlink(slot, from: &list)
        append(slot, to: &list)
    }
}
