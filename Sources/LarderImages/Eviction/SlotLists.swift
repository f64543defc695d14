/// Doubly linked lists of slots in one array. A slot takes 20 bytes, and moving it to another list allocates nothing.
struct SlotLists: Sendable {
    /// A list of slots, in the order in which they were appended.
    struct List: Sendable {
        fileprivate var first = none
        fileprivate var last = none
        fileprivate(set) var count = 0
        fileprivate(set) var bytes = 0
        /// Identifies the list. 0 means no list.
        let number: UInt8

        init(number: UInt8) { self.number = number }
    }

    struct Node: Sendable {
        fileprivate var previous = none
        fileprivate var next = none
        /// The size in bytes, limited to 4 GiB minus one.
        fileprivate(set) var size: UInt32 = 0
        fileprivate(set) var fingerprint: UInt32 = 0
        /// The number of the list that contains the slot; 0 if none does.
        fileprivate(set) var list: UInt8 = 0
        /// The value of the policy's use counter.
        var uses: UInt8 = 0
    }

    private static let none = UInt32.max
    private(set) var nodes: [Node] = []

    /// Initializes a slot and appends it to a list.
    mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int, into list: inout List) {
        while nodes.count <= Int(slot) { nodes.append(Node()) }
        assert(nodes[Int(slot)].list == 0, "the slot holds another image")
        nodes[Int(slot)] = Node(size: UInt32(clamping: size), fingerprint: fingerprint)
        append(slot, to: &list)
    }

    /// The number of the list that contains a slot; 0 if none does.
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

    /// Removes a slot from the list that contains it.
    mutating func unlink(_ slot: UInt32, from list: inout List) {
        let node = nodes[Int(slot)]
        assert(node.list == list.number)
        if node.previous == Self.none { list.first = node.next } else { nodes[Int(node.previous)].next = node.next }
        if node.next == Self.none { list.last = node.previous } else { nodes[Int(node.next)].previous = node.previous }
        nodes[Int(slot)].list = 0
        list.count -= 1
        list.bytes -= Int(node.size)
    }

    /// Moves a slot to the end of its list.
    mutating func requeue(_ slot: UInt32, in list: inout List) {
        unlink(slot, from: &list)
        append(slot, to: &list)
    }

    // MARK: Invariants, which tests check

    /// The slots of a list, in order; at most as many as there are nodes.
    func slots(of list: List) -> [UInt32] {
        var (slots, slot): ([UInt32], UInt32) = ([], list.first)
        while slot != Self.none, slots.count <= nodes.count {
            slots.append(slot)
            slot = nodes[Int(slot)].next
        }
        return slots
    }

    /// What is inconsistent in a list; nil if nothing is.
    func inconsistency(of list: List) -> String? {
        let slots = slots(of: list)
        var previous = Self.none
        for slot in slots {
            let node = nodes[Int(slot)]
            if node.previous != previous || node.list != list.number { return "slot \(slot) is linked wrongly" }
            previous = slot
        }
        if list.last != previous { return "list \(list.number) ends elsewhere" }
        if list.count != slots.count { return "list \(list.number) has \(slots.count) slots, not \(list.count)" }
        let bytes = slots.reduce(0) { $0 + Int(nodes[Int($1)].size) }
        return list.bytes == bytes ? nil : "list \(list.number) has \(bytes) bytes, not \(list.bytes)"
    }
}
