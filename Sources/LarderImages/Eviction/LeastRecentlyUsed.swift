/// Removes what was not used for longest. The policy that everybody knows, as a reference: one pass over many images that
/// nobody asks for again empties the cache of those that everybody asks for.
struct LeastRecentlyUsed: EvictionPolicy {
    private var lists = EvictionLists()
    private var order = EvictionLists.List(number: 1)

    /// Makes an empty one.
    init() {}

    var count: Int { order.count }
    var bytes: Int { order.bytes }

    mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int) {
        lists.insert(slot, fingerprint: fingerprint, size: size, into: &order)
    }

    mutating func touch(_ slot: UInt32) {
        if lists.list(of: slot) == order.number { lists.requeue(slot, in: &order) }
    }

    mutating func remove(_ slot: UInt32) {
        if lists.list(of: slot) == order.number { lists.unlink(slot, from: &order) }
    }

    mutating func nextVictims(limit: Int, bytes: Int, isHeld: (UInt32) -> Bool) -> EvictionSlice {
        var slice = EvictionSlice()
        var held = 0
        while slice.victims.count < limit, slice.bytes < bytes, held < order.count, let slot = lists.first(of: order) {
            if isHeld(slot) {
                // Held means in use.
                lists.requeue(slot, in: &order)
                held += 1
            } else {
                slice.bytes += Int(lists.nodes[Int(slot)].size)
                lists.unlink(slot, from: &order)
                slice.victims.append(slot)
            }
        }
        slice.isExhausted = held >= order.count
        return slice
    }
}
