/// S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP 2023), with sizes in
/// bytes instead of counts.
///
/// New images go through a small queue of a tenth of the room. Most images are never asked for again, and leave from
/// there; those that were used meanwhile move to the main queue, which goes round and takes one use off each image that
/// comes to its head. Images that left the small queue are remembered, without their bytes, in a ghost queue: if one comes
/// back it goes to the main queue at once. So a pass over many images that nobody asks for again costs a tenth of the room
/// only. A use is one increment: nothing moves on a hit.
struct SmallMainGhost: EvictionPolicy {
    private var lists = EvictionLists()
    private var small = EvictionLists.List(number: 1)
    private var main = EvictionLists.List(number: 2)
    private var ghosts = GhostQueue()
    /// How many images in a row were held at the heads of the queues, over all slices: when that is a whole round of both,
    /// there is nothing to find.
    private var heldInSmall = 0
    private var heldInMain = 0

    /// More uses than this count as this (two bits, section 4.1).
    private static let mostUses: UInt8 = 3
    /// An image leaves the small queue for the main one if it was used more often than this since it came.
    private static let usesToStay: UInt8 = 1

    /// Makes an empty one.
    init() {}

    var count: Int { small.count + main.count }
    var bytes: Int { small.bytes + main.bytes }
    /// How many images that are gone are remembered.
    var ghostCount: Int { ghosts.count }

    mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int) {
        if ghosts.take(fingerprint) {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &main)
        } else {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &small)
        }
    }

    mutating func touch(_ slot: UInt32) {
        guard lists.list(of: slot) != 0 else { return }
        lists.setUses(min(lists.uses(of: slot) + 1, Self.mostUses), of: slot)
    }

    mutating func remove(_ slot: UInt32) {
        switch lists.list(of: slot) {
        case small.number:
            heldInSmall = 0
            lists.unlink(slot, from: &small)
        case main.number:
            heldInMain = 0
            lists.unlink(slot, from: &main)
        default: break
        }
    }

    mutating func nextVictims(limit: Int, bytes: Int, isHeld: (UInt32) -> Bool) -> EvictionSlice {
        var slice = EvictionSlice()
        // A round of the main queue may take a use off many images before it comes to one that goes.
        var steps = 8 * max(limit, 16)
        while slice.victims.count < limit, slice.bytes < bytes, steps > 0 {
            let isSmallHeld = heldInSmall >= small.count
            let isMainHeld = heldInMain >= main.count
            guard !isSmallHeld || !isMainHeld else {
                (heldInSmall, heldInMain) = (0, 0)
                slice.isExhausted = true
                break
            }
            steps -= 1
            // The small queue has a tenth of what is there.
            let isFromSmall = isMainHeld || (!isSmallHeld && small.bytes * 10 >= self.bytes)
            guard let slot = lists.first(of: isFromSmall ? small : main) else { break }
            let isKept = isHeld(slot)
            if isFromSmall {
                heldInSmall = isKept ? heldInSmall + 1 : 0
                if isKept { lists.requeue(slot, in: &small) }
            } else {
                heldInMain = isKept ? heldInMain + 1 : 0
                if isKept { lists.requeue(slot, in: &main) }
            }
            if !isKept, isFromSmall ? leaveSmall(slot) : leaveMain(slot) {
                slice.victims.append(slot)
                slice.bytes += Int(lists.nodes[Int(slot)].size)
            }
        }
        return slice
    }

    /// Takes an image from the head of the small queue; whether it goes.
    private mutating func leaveSmall(_ slot: UInt32) -> Bool {
        lists.unlink(slot, from: &small)
        if lists.uses(of: slot) > Self.usesToStay {
            lists.setUses(0, of: slot)
            lists.append(slot, to: &main)
            return false
        }
        let node = lists.nodes[Int(slot)]
        // As many bytes as the main queue has, and never more entries than there are images.
        ghosts.append(
            node.fingerprint, size: node.size, maximumBytes: max(bytes, 1 << 20), maximumCount: max(count, 64))
        return true
    }

    /// Takes an image from the head of the main queue; whether it goes.
    private mutating func leaveMain(_ slot: UInt32) -> Bool {
        lists.unlink(slot, from: &main)
        let uses = lists.uses(of: slot)
        guard uses > 0 else { return true }
        lists.setUses(uses - 1, of: slot)
        lists.append(slot, to: &main)
        return false
    }
}
