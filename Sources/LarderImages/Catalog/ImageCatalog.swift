internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderUpstream
internal import Synchronization

/// The in-memory table of cached images. Event loops look up images and count hits; only ``ImageCache`` adds and
/// removes images. No disk I/O happens under the lock.
final class ImageCatalog: Sendable {
    struct State: Sendable {
        var table: ImageTable
        let store: BlobStore
        var order = S3FIFO()
        /// Slots of images that were used after their rows were last written.
        var touched: Set<UInt32> = []
        var details = DetailsPool()
        var keys: ImageKeyResolver
        var maximumAge: Int?
        var statistics = ImageStatistics()
    }

    let state: Mutex<State>
    let store: BlobStore
    /// The hash of the fields that the agent sends with every image request; see ``Variant/fingerprint(of:)``.
    let fingerprint: UInt64
    /// The bytes that downloads have received.
    let receivedBytes = ByteCounter()
    private let versions = Atomic(0)

    /// Creates an empty catalog.
    init(store: BlobStore, settings: ImageCacheSettings, fingerprint: UInt64) {
        self.store = store
        self.fingerprint = fingerprint
        state = Mutex(
            State(
                table: ImageTable(), store: store, keys: ImageKeyResolver(settings.origins),
                maximumAge: settings.maximumAge))
    }

    /// Adds the rows of the index to the empty catalog, and their references to the store. The lock is held only at the
    /// end, so that lookups do not wait.
    func adopt(_ table: ImageTable) {
        // In the order of use, so that the most recently used image is evicted last. Slots are sorted instead of entries
        // because they are smaller.
        let slots = (0..<table.slotCount).sorted { (table[$0]?.lastUse ?? 0) < (table[$1]?.lastUse ?? 0) }
        let entries = slots.lazy.compactMap { slot in table[slot].map { (slot, $0) } }
        var order = S3FIFO()
        for (slot, entry) in entries {
            store.adopt(entry.digest, size: entry.size)
            if entry.isPinned { store.countPin(entry.digest, 1) }
            order.insert(slot, fingerprint: entry.key.fingerprint, size: store.blobs.space(of: entry.size))
        }
        state.withLock { ($0.table, $0.order) = (table, order) }
    }

    func update(_ settings: ImageCacheSettings) {
        state.withLock { state in
            state.keys = ImageKeyResolver(settings.origins)
            state.maximumAge = settings.maximumAge
        }
        versions.add(1, ordering: .releasing)
    }

    /// Increases with every change of the settings.
    var settingsVersion: Int { versions.load(ordering: .acquiring) }

    var keys: ImageKeyResolver { state.withLock { $0.keys } }

    var hasMaximumAge: Bool { state.withLock { $0.maximumAge != nil } }

    func count(_ change: (inout ImageStatistics) -> Void) { state.withLock { change(&$0.statistics) } }

    var statistics: ImageStatistics {
        state.withLock { state in
            var statistics = state.statistics
            statistics.entries = state.table.count
            statistics.downloadedBytes = receivedBytes.bytes
            return statistics
        }
    }

    // MARK: Lookup

    /// Answers a request from the cache; see ``ImageCache/hit(_:now:)``.
    func hit(_ request: ImageRequest, now: Int) -> CachedImage? {
        guard let location = try? keys.resolve(request) else { return nil }
        return hit(request, location.key, now: now)
    }

    /// Answers a request whose key has been computed.
    func hit(_ request: ImageRequest, _ key: ImageKey, now: Int) -> CachedImage? {
        state.withLock { state in
            guard let slot = state.slot(of: key, request.expectedDigest, now), let entry = state.table[slot],
                entry.matches(fingerprint) == true
            else { return nil }
            switch request.cache.decide(StoredCandidate(freshness: entry.freshness), now: now) {
            case .fresh, .stale(revalidateInBackground: false): break
            default: return nil
            }
            return take(slot, &state, source: .hit, now: now)
        }
    }

    /// Answers with an image if the image is still cached and its file is verified; otherwise nil. Adds a reference and
    /// counts the use.
    func take(_ entry: ImageEntry, now: Int) -> CachedImage? {
        state.withLock { state in
            guard let slot = state.table.slot(of: entry.key), state.table[slot]?.digest == entry.digest else {
                return nil
            }
            return take(slot, &state, source: .hit, now: now)
        }
    }

    private func take(_ slot: UInt32, _ state: inout State, source: CachedImage.Source, now: Int) -> CachedImage? {
        guard let entry = state.table[slot], let details = state.details[slot],
            store.retain(entry.digest, ifVerified: true)
        else { return nil }
        state.use(slot, now: now)
        let image = CachedImage(entry, details, source: source, now: now)
        state.statistics.hits += 1
        if image.freshness == .stale { state.statistics.staleAnswers += 1 }
        return image
    }

    /// The cached image that may answer a request, whether or not its file is verified; nil if there is none. Does not
    /// count as a use.
    func usableEntry(_ location: CacheLocation, _ expected: BlobDigest?, now: Int) -> ImageEntry? {
        state.withLock { state in
            state.slot(of: location.key, expected, now).flatMap { state.table[$0] }
        }
    }

    // MARK: Changes, called by the actor only

    /// The image of a key, even if it is older than the settings allow.
    func entry(_ key: ImageKey) -> ImageEntry? {
        state.withLock { state in state.table.slot(of: key).flatMap { state.table[$0] } }
    }

    /// Adds or replaces an image.
    ///
    /// - Returns: the previous image with the same key
    func put(_ entry: ImageEntry, _ details: ImageDetails?) -> ImageEntry? {
        state.withLock { state in
            let old = state.put(entry)
            if let slot = state.table.slot(of: entry.key) { state.details[slot] = details }
            return old
        }
    }

    /// The details of an image; nil if they have not been loaded.
    func details(of entry: ImageEntry) -> ImageDetails? {
        state.withLock { state in
            guard let slot = state.table.slot(of: entry.key), state.table[slot]?.digest == entry.digest else {
                return nil
            }
            return state.details[slot]
        }
    }

    /// Sets the details of an image, unless it has been replaced in the meantime.
    func setDetails(_ details: ImageDetails, of entry: ImageEntry) {
        state.withLock { state in
            guard let slot = state.table.slot(of: entry.key), state.table[slot] == entry else { return }
            state.details[slot] = details
        }
    }

    /// Removes an image, unless it has been replaced in the meantime.
    func remove(_ entry: ImageEntry) -> Bool {
        state.withLock { state in
            guard let slot = state.table.slot(of: entry.key), state.table[slot]?.digest == entry.digest else {
                return false
            }
            return state.remove(slot) != nil
        }
    }

    /// Restores an image whose removal failed.
    ///
    /// - Returns: false if another image with the same key has been added in the meantime
    func restore(_ entry: ImageEntry) -> Bool {
        state.withLock { state in
            guard state.table.slot(of: entry.key) == nil else { return false }
            _ = state.put(entry)
            return true
        }
    }

    /// Pins or unpins an image.
    ///
    /// - Returns: false if the image is not cached
    func pin(_ key: ImageKey, _ isPinned: Bool) -> Bool {
        state.withLock { state in
            guard let slot = state.table.slot(of: key), let entry = state.table[slot] else { return false }
            if entry.isPinned != isPinned { store.countPin(entry.digest, isPinned ? 1 : -1) }
            state.table.update(slot, isPinned: isPinned)
            return true
        }
    }

    /// Removes a batch of images that may be evicted.
    ///
    /// - Returns: the images, and whether no other image may be evicted
    func takeVictims(limit: Int, bytes: Int) -> (entries: [ImageEntry], isExhausted: Bool) {
        state.withLock { state in
            let slice = Self.victims(&state.order, state.table, store, limit: limit, bytes: bytes)
            let entries = slice.victims.compactMap { state.remove($0) }
            return (entries, slice.isExhausted)
        }
    }

    private static func victims(
        _ order: inout S3FIFO, _ table: ImageTable, _ store: BlobStore, limit: Int, bytes: Int
    ) -> EvictionBatch {
        order.nextVictims(limit: limit, bytes: bytes, releases: store.releases) { slot in
            guard let entry = table[slot] else { return false }
            return entry.isPinned || store.isLeased(entry.digest)
        }
    }

    /// Removes the images that meet a condition from a range of slots.
    ///
    /// - Returns: the removed images, and the slot where the next call continues, which is nil at the end
    func take(
        from slot: UInt32, count: UInt32 = 1024, limit: Int = .max, where isIncluded: (ImageEntry, State) -> Bool
    ) -> (entries: [ImageEntry], next: UInt32?) {
        state.withLock { state in
            var entries: [ImageEntry] = []
            var next = slot
            while next < slot + count, next < state.table.slotCount, entries.count < limit {
                if let entry = state.table[next], isIncluded(entry, state), let removed = state.remove(next) {
                    entries.append(removed)
                }
                next += 1
            }
            return (entries, next < state.table.slotCount ? next : nil)
        }
    }

    /// The blobs of the images in a range of slots, and the slot where the next call continues, which is nil at the
    /// end.
    func digests(from slot: UInt32, count: UInt32 = 1024) -> (digests: [BlobDigest], next: UInt32?) {
        state.withLock { state in
            let end = min(slot + count, state.table.slotCount)
            let digests = (slot..<max(slot, end)).compactMap { state.table[$0]?.digest }
            return (digests, end < state.table.slotCount ? end : nil)
        }
    }

    /// Returns the times of last use that the index does not have yet, of at most `limit` images. Later calls return a
    /// time again only after another use of the image.
    func takeTouches(limit: Int) -> [(key: ImageKey, time: Int)] {
        state.withLock { state in
            let slots = Array(state.touched.prefix(limit))
            state.touched.subtract(slots)
            return slots.compactMap { slot in state.table[slot].map { ($0.key, $0.lastUse) } }
        }
    }
}

extension ImageCatalog.State {
    /// The slot of a key's image. Nil if the key has no image, if the image is older than the settings allow, or if
    /// `expected` is not nil and differs from the digest of the image.
    func slot(of key: ImageKey, _ expected: BlobDigest?, _ now: Int) -> UInt32? {
        guard let slot = table.slot(of: key), let entry = table[slot], !isTooOld(entry, now),
            expected == nil || expected == entry.digest
        else { return nil }
        return slot
    }

    /// Whether an image is older than the settings allow. Pinned images never are.
    func isTooOld(_ entry: ImageEntry, _ now: Int) -> Bool {
        guard let maximumAge, !entry.isPinned else { return false }
        return now - entry.freshness.responseTime > maximumAge
    }

    fileprivate mutating func use(_ slot: UInt32, now: Int) {
        order.touch(slot)
        guard let entry = table[slot], entry.lastUse != now else { return }
        table.update(slot, lastUse: now)
        touched.insert(slot)
    }

    fileprivate mutating func put(_ entry: ImageEntry) -> ImageEntry? {
        let (slot, old) = table.put(entry)
        if entry.isPinned { store.countPin(entry.digest, 1) }
        if let old, old.isPinned { store.countPin(old.digest, -1) }
        // A new response for the same body counts as a use. A new body may have another size, so the image enters the
        // eviction queues anew.
        if old?.digest == entry.digest {
            order.touch(slot)
        } else {
            if old != nil { order.remove(slot) }
            order.insert(slot, fingerprint: entry.key.fingerprint, size: store.blobs.space(of: entry.size))
        }
        return old
    }

    fileprivate mutating func remove(_ slot: UInt32) -> ImageEntry? {
        guard let entry = table.remove(slot) else { return nil }
        if entry.isPinned { store.countPin(entry.digest, -1) }
        order.remove(slot)
        touched.remove(slot)
        details[slot] = nil
        return entry
    }
}

extension CachedImage {
    init(
        _ entry: ImageEntry, _ details: ImageDetails, source: Source, now: Int, freshness: Freshness? = nil
    ) {
        let isFresh = entry.freshness.remaining(at: now) > 0 && !entry.freshness.requiresValidation
        self.init(
            digest: entry.digest, type: entry.type, width: entry.width, height: entry.height, bytes: entry.size,
            freshness: freshness ?? (isFresh ? .fresh : .stale), source: source, age: entry.freshness.age(at: now),
            details: details)
    }
}
