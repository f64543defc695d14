/// Chooses which images to remove when room is needed: S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you
/// need for cache eviction", SOSP 2023), with sizes in bytes instead of counts.
///
/// New images enter a small queue that gets a tenth of the room. Most images are requested once and leave from there.
/// Images that were used again move to the main queue, which is a clock: an image at its head loses one use and goes to
/// the end, or leaves if it has none. Images that left the small queue are remembered without their bytes in a ghost
/// queue, and enter the main queue if they come back. So a pass over many images that are requested once costs a tenth
/// of the room. A use increments a counter; nothing moves on a hit.
///
/// An image is identified by its slot, a small number that the index reuses after the image is removed. S3FIFO only
/// orders slots. Each operation takes constant time, amortised.
package struct S3FIFO: Sendable {
    private var lists = SlotLists()
    private var small = SlotLists.List(number: 1)
    private var main = SlotLists.List(number: 2)
    private var ghosts = GhostQueue()
    /// How many images in a row were held at the heads of the queues, over all slices: when that is a whole round of both,
    /// there is nothing to find.
    private var heldInSmall = 0
    private var heldInMain = 0

    /// More uses than this count as this (two bits, section 4.1).
    private static let maxUses: UInt8 = 3
    /// An image leaves the small queue for the main one if it was used more often than this since it came.
    private static let usesToStay: UInt8 = 1

    package init() {}

    /// How many images are in the queues.
    package var count: Int { small.count + main.count }
    /// The bytes of these images.
    package var bytes: Int { small.bytes + main.bytes }
    /// How many removed images are remembered.
    var ghostCount: Int { ghosts.count }

    /// Adds an image.
    ///
    /// - Parameters:
    ///   - slot: a slot without an image
    ///   - fingerprint: some bits of a hash of the image's key, by which an image that comes back is recognised
    ///   - size: its bytes
    package mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int) {
        if ghosts.take(fingerprint) {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &main)
        } else {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &small)
        }
    }

    /// Counts a use of an image. A slot without an image is ignored.
    package mutating func touch(_ slot: UInt32) {
        guard lists.list(of: slot) != 0 else { return }
        lists.setUses(min(lists.uses(of: slot) + 1, Self.maxUses), of: slot)
    }

    /// Removes an image. A slot without an image is ignored.
    package mutating func remove(_ slot: UInt32) {
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

    /// Takes images to remove out of the queues.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of images, which also bounds the work of one call
    ///   - bytes: stops when the images have this many bytes together
    ///   - isHeld: whether an image must stay because it is pinned or leased
    package mutating func nextVictims(limit: Int, bytes: Int, isHeld: (UInt32) -> Bool) -> EvictionBatch {
        var slice = EvictionBatch()
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
        // The ghost queue covers as many bytes as the main queue may have (section 4.2).
        ghosts.append(node.fingerprint, size: node.size, maximumBytes: max(bytes - bytes / 10, 1 << 20))
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

/// The result of ``S3FIFO/nextVictims(limit:bytes:isHeld:)``.
package struct EvictionBatch: Sendable, Hashable {
    /// The slots of the images to remove, in order.
    package var victims: [UInt32] = []
    /// Their bytes.
    package var bytes = 0
    /// Whether no image is left that may go. If false, another slice may find more.
    package var isExhausted = false
}
