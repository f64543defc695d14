/// The S3-FIFO eviction policy (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP
/// 2023), with sizes in bytes instead of counts.
///
/// New images enter a small queue, which gets a tenth of the space. Most images are requested once and are evicted from
/// there. Images that were used again move to the main queue, which is a clock: the image at its head loses one use and
/// goes to the end, or is evicted if it has no uses left. A ghost queue remembers images that were evicted from the
/// small queue, without their bytes; if they return, they enter the main queue. A scan over many images that are
/// requested once therefore displaces only a tenth of the space. A hit increments a counter and moves nothing.
///
/// An image is identified by its slot, a small number that is reused after the image was removed. S3FIFO only orders
/// slots. Each operation takes constant amortized time.
package struct S3FIFO: Sendable {
    private var lists = SlotLists()
    private var small = SlotLists.List(number: 1)
    private var main = SlotLists.List(number: 2)
    private var ghosts = GhostQueue()
    /// For each queue, the number of successive images that were found at its head and must stay (`isRetained`),
    /// counted across calls. Each of them moves to the end of its queue. When the counts reach the sizes of both
    /// queues, no image can be evicted.
    private var retainedInSmall = 0
    private var retainedInMain = 0
    /// The value of `releases` when both counts were last 0.
    private var countedReleases = 0
    /// Whether the last call used all its steps without a victim, so that the next call continues its search.
    private var isSearching = false
    /// Whether the current search has started over.
    private var hasRestarted = false

    /// The maximum of an image's use counter, which has two bits in section 4.1 of the paper.
    private static let maxUses: UInt8 = 3
    /// An image moves from the small to the main queue if it was used more than this number of times.
    private static let usesToStay: UInt8 = 1

    package init() {}

    package var count: Int { small.count + main.count }
    /// The bytes of all images in the queues.
    package var bytes: Int { small.bytes + main.bytes }
    /// The number of evicted images that are remembered.
    var ghostCount: Int { ghosts.count }

    /// Adds an image.
    ///
    /// - Parameters:
    ///   - slot: a slot without an image
    ///   - fingerprint: part of a hash of the image's key, to recognize an image that returns
    ///   - size: the size of the image in bytes
    package mutating func insert(_ slot: UInt32, fingerprint: UInt32, size: Int) {
        if ghosts.take(fingerprint) {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &main)
        } else {
            lists.insert(slot, fingerprint: fingerprint, size: size, into: &small)
        }
    }

    /// Counts a use of an image. Ignores a slot without an image.
    ///
    /// - Returns: whether the slot has an image
    @discardableResult
    package mutating func touch(_ slot: UInt32) -> Bool {
        guard lists.list(of: slot) != 0 else { return false }
        lists.setUses(min(lists.uses(of: slot) + 1, Self.maxUses), of: slot)
        return true
    }

    /// Removes an image. Ignores a slot without an image.
    package mutating func remove(_ slot: UInt32) {
        switch lists.list(of: slot) {
        case small.number:
            retainedInSmall = 0
            lists.unlink(slot, from: &small)
        case main.number:
            retainedInMain = 0
            lists.unlink(slot, from: &main)
        default: break
        }
    }

    /// Chooses images to evict and removes them from the queues.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of images. It also bounds the work of one call
    ///   - bytes: stops when the chosen images have this many bytes together
    ///   - releases: a number that changes whenever an image that had to stay may be evicted again
    ///   - isRetained: whether an image must stay because it is pinned or leased
    package mutating func nextVictims(
        limit: Int, bytes: Int, releases: Int = 0, isRetained: (UInt32) -> Bool
    ) -> EvictionBatch {
        var slice = EvictionBatch()
        // In the main queue, many images may lose a use before one can be evicted, so the steps of a call are limited.
        var steps = 8 * max(limit, 16)
        if releases != countedReleases, !isSearching { resetCounts(releases) }
        defer {
            isSearching = slice.victims.isEmpty && !slice.isExhausted && steps == 0
            if !isSearching { hasRestarted = false }
        }
        while slice.victims.count < limit, slice.bytes < bytes, steps > 0 {
            let isSmallRetained = retainedInSmall >= small.count
            let isMainRetained = retainedInMain >= main.count
            guard !isSmallRetained || !isMainRetained else {
                // An image may have become evictable after the search had passed it. The search starts over only once,
                // so that it ends although images are released all the time.
                let mayRestart = releases != countedReleases && !hasRestarted
                resetCounts(releases)
                if mayRestart {
                    hasRestarted = true
                    continue
                }
                slice.isExhausted = true
                break
            }
            steps -= 1
            // Evicts from the small queue while it has at least a tenth of all bytes, or if all images in the main
            // queue must stay.
            let isFromSmall = isMainRetained || (!isSmallRetained && small.bytes * 10 >= self.bytes)
            guard let slot = lists.first(of: isFromSmall ? small : main) else { break }
            let isKept = isRetained(slot)
            if isFromSmall {
                retainedInSmall = isKept ? retainedInSmall + 1 : 0
                if isKept { lists.requeue(slot, in: &small) }
            } else {
                retainedInMain = isKept ? retainedInMain + 1 : 0
                if isKept { lists.requeue(slot, in: &main) }
            }
            if !isKept, isFromSmall ? leaveSmall(slot) : leaveMain(slot) {
                slice.victims.append(slot)
                slice.bytes += Int(lists.nodes[Int(slot)].size)
            }
        }
        return slice
    }

    private mutating func resetCounts(_ releases: Int) {
        (retainedInSmall, retainedInMain, countedReleases) = (0, 0, releases)
    }

    /// Removes the image at the head of the small queue. Returns whether to evict it; otherwise it moves to the main
    /// queue.
    private mutating func leaveSmall(_ slot: UInt32) -> Bool {
        lists.unlink(slot, from: &small)
        if lists.uses(of: slot) > Self.usesToStay {
            lists.setUses(0, of: slot)
            lists.append(slot, to: &main)
            return false
        }
        let node = lists.nodes[Int(slot)]
        // The ghost queue covers as many bytes as the main queue may have (section 4.2 of the paper), and at least 1
        // MiB.
        ghosts.append(node.fingerprint, size: node.size, maximumBytes: max(bytes - bytes / 10, 1 << 20))
        return true
    }

    /// Removes the image at the head of the main queue. Returns whether to evict it; otherwise it goes to the end of
    /// the queue.
    private mutating func leaveMain(_ slot: UInt32) -> Bool {
        lists.unlink(slot, from: &main)
        let uses = lists.uses(of: slot)
        guard uses > 0 else { return true }
        lists.setUses(uses - 1, of: slot)
        lists.append(slot, to: &main)
        return false
    }
}

// MARK: Invariants, which tests check

extension S3FIFO {
    /// The slots of all images.
    var slots: Set<UInt32> { Set(lists.slots(of: small) + lists.slots(of: main)) }

    /// What is inconsistent; nil if nothing is.
    var inconsistency: String? {
        if let found = lists.inconsistency(of: small) ?? lists.inconsistency(of: main) ?? ghosts.inconsistency {
            return found
        }
        if lists.nodes.count(where: { $0.list != 0 }) != count { return "a slot is in no queue" }
        if lists.nodes.contains(where: { $0.uses > Self.maxUses }) { return "an image has too many uses" }
        if retainedInSmall > small.count || retainedInMain > main.count { return "more images are retained than exist" }
        return nil
    }
}

/// The result of ``S3FIFO/nextVictims(limit:bytes:releases:isRetained:)``.
package struct EvictionBatch: Sendable, Hashable {
    /// The slots of the images to evict, in order.
    package var victims: [UInt32] = []
    /// The bytes of these images.
    package var bytes = 0
    /// Whether no other image can be evicted. If false, another call may find more.
    package var isExhausted = false
}

/// Fingerprints of images that were recently evicted from the small queue, oldest first. If such an image returns, it
/// goes to the main queue.
///
/// Different keys may have the same 32-bit fingerprint. With 100,000 entries, one key in 40,000 has the fingerprint of
/// another key. The only effect of such a collision is that an image is kept longer.
struct GhostQueue: Sendable {
    private struct Ghost: Sendable {
        let fingerprint: UInt32
        /// The size of the image in bytes; 0 if the entry was removed.
        var size: UInt32
    }

    /// Smaller images count as this many bytes, which is the smallest disk space of a file. This minimum also bounds
    /// the number of entries.
    private static let minSize: UInt32 = 512

    /// In order of insertion. The entries before ``start`` were removed.
    private var ghosts: [Ghost] = []
    private var start = 0
    /// The indices in ``ghosts`` of the entries that were not removed.
    private var places: [UInt32: Int] = [:]
    private(set) var bytes = 0

    var count: Int { places.count }

    /// Adds an entry, then removes the oldest entries until the remaining ones have at most `maximumBytes` together.
    mutating func append(_ fingerprint: UInt32, size: UInt32, maximumBytes: Int) {
        // Removes an entry with this fingerprint, which may belong to a different key.
        _ = take(fingerprint)
        let size = max(size, Self.minSize)
        places[fingerprint] = ghosts.count
        ghosts.append(Ghost(fingerprint: fingerprint, size: size))
        bytes += Int(size)
        while count > 0, bytes > maximumBytes {
            if ghosts[start].size > 0 { _ = take(ghosts[start].fingerprint) }
            start += 1
        }
        // Compacts the array when more than half of its entries were removed, at constant amortized cost.
        if ghosts.count > 64, count * 2 < ghosts.count {
            ghosts.removeAll { $0.size == 0 }
            start = 0
            for (place, ghost) in ghosts.enumerated() { places[ghost.fingerprint] = place }
        }
    }

    /// Removes a fingerprint. Returns whether it was present.
    mutating func take(_ fingerprint: UInt32) -> Bool {
        guard let place = places.removeValue(forKey: fingerprint) else { return false }
        bytes -= Int(ghosts[place].size)
        ghosts[place].size = 0
        return true
    }

    /// What is inconsistent; nil if nothing is. For tests.
    var inconsistency: String? {
        let kept = ghosts.indices.filter { ghosts[$0].size > 0 }
        if kept.count != places.count { return "there are \(kept.count) ghosts and \(places.count) places" }
        if kept.contains(where: { $0 < start || places[ghosts[$0].fingerprint] != $0 }) {
            return "a ghost is at another place"
        }
        return kept.reduce(0) { $0 + Int(ghosts[$1].size) } == bytes ? nil : "the ghosts have other bytes"
    }
}

/// Uses of images. They reach the eviction order, which ``ImageCache`` owns, in batches.
struct UseBatch: Sendable {
    /// The actor is woken when this number of uses waits for it.
    private static let wakingCount = 1024
    /// Further uses are dropped, because they only determine the order of eviction.
    private static let maxCount = 8 * wakingCount

    /// The slots of the images, with the times of the uses in seconds since 1970.
    var uses: [(slot: UInt32, time: UInt32)] = []

    /// - Returns: whether to wake the actor
    mutating func add(_ slot: UInt32, _ now: Int) -> Bool {
        guard uses.count < Self.maxCount else { return false }
        uses.append((slot, UInt32(clamping: now)))
        return uses.count == Self.wakingCount
    }
}
