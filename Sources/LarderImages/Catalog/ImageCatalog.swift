internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// The tables of the image cache in memory. Only the types of this file change them:
///
/// - ``ImageCatalog`` adds, removes and pins images. It is not `Sendable`, and ``ImageCache`` holds the only instance, so
///   the compiler refuses a change from elsewhere.
/// - ``BlobRegister`` adds, verifies and removes blobs, and records the state of the index. It is not `Sendable`, and the
///   ``BlobStore`` of the disk actor holds the only instance.
/// - ``BlobAccounts`` reserves the space of images that are being written, and adds leases, on any thread.
/// - ``ImageCacheView`` looks up images on any thread, and adds and releases leases with ``take(now:_:)`` and
///   ``release(_:)``.
final class CacheTables: Sendable {
    struct State: Sendable {
        fileprivate(set) var images = ImageTable()
        fileprivate(set) var details = DetailsPool()
        fileprivate(set) var blobs: BlobTable
        fileprivate(set) var keys = ImageKeyResolver([])
        fileprivate(set) var maximumAge: Int?
        fileprivate(set) var statistics = ImageStatistics()
        fileprivate(set) var opening = IndexOpening.pending
        /// Why the last change of the index could not be written; nil if it was written.
        fileprivate(set) var writeProblem: ImageError?
        /// Uses of images that the ``ImageCatalog`` has not fetched yet.
        fileprivate var uses = UseBatch()
        /// The eviction order of the images of the index, until the ``ImageCatalog`` fetches it.
        fileprivate var loadedOrder: S3FIFO?
        fileprivate var releases = ImageCatalog.Releases()
        /// Whether any transfer waits for disk space.
        fileprivate var isSpaceAwaited = false
    }

    // A mutex for all tables, because a hit looks up an image and adds a lease of its blob in one step, on any event
    // loop. No disk I/O happens while it is locked.
    fileprivate let state: Mutex<State>
    private let interruption = Atomic(false)

    fileprivate init(_ blobs: BlobTable) { state = Mutex(State(blobs: blobs)) }

    /// See ``BlobAccounts/isInterrupted``.
    var isInterrupted: Bool {
        get { interruption.load(ordering: .relaxed) }
        set { interruption.store(newValue, ordering: .relaxed) }
    }

    func read<T: Sendable>(_ body: (borrowing State) -> T) -> T { state.withLock { body($0) } }

    /// Answers with an image whose file is verified. Adds a reference to its blob, and counts a use.
    ///
    /// - Parameter find: returns the slot of the image; nil for no answer
    /// - Returns: the image; nil without an answer. `isBatchFull` is whether ``ImageCatalog/takeReleases()`` has to be
    ///   called, to fetch the uses
    @inline(__always)
    func take(now: Int, _ find: (borrowing State) -> UInt32?) -> (image: CachedImage?, isBatchFull: Bool) {
        state.withLock { state in
            guard let slot = find(state), let entry = state.images[slot], let details = state.details[slot],
                state.blobs.retain(entry.digest, ifVerified: true)
            else { return (nil, false) }
            let isBatchFull = state.uses.add(slot, now)
            let image = CachedImage(entry, details, source: .hit, now: now)
            state.statistics.hits += 1
            if image.freshness == .stale { state.statistics.staleAnswers += 1 }
            return (image, isBatchFull)
        }
    }

    /// Releases a reference.
    ///
    /// - Returns: whether ``ImageCatalog/takeReleases()`` has to be called
    func release(_ digest: BlobDigest) -> Bool {
        state.withLock { state in
            if state.blobs.release(digest, isRow: false) {
                state.releases.unreferenced.append(digest)
                return true
            }
            // If this was the last lease of the image, the image may now be evicted to make room for a waiting
            // transfer.
            if state.isSpaceAwaited { state.releases.mayMakeRoom = true }
            return state.isSpaceAwaited
        }
    }

    /// Marks a blob as unverified, because its file is missing. It is not served before its file has been opened.
    func markMissing(_ digest: BlobDigest) { state.withLock { $0.blobs.setVerified(digest, false) } }
}

/// Whether the index has been read.
enum IndexOpening: Sendable {
    case pending
    case open
    case failed(ImageError)
}

/// The blobs on disk and the state of the index: what the disk actor changes in the tables. All methods access only
/// memory. ``BlobStore`` holds the only instance for its tables.
///
/// The type is not `Sendable`, so the compiler refuses a change from outside the disk actor.
final class BlobRegister {
    /// The part that any thread may read, and in which it may reserve space.
    let accounts: BlobAccounts

    /// Creates empty tables.
    init(_ limits: SpaceLimits, _ imageLimits: ImageLimits, blockBytes: Int) {
        let blobs = BlobTable(ledger: SpaceLedger(limits: limits), imageLimits: imageLimits, blockBytes: blockBytes)
        accounts = BlobAccounts(CacheTables(blobs))
    }

    /// Runs `body` with the table locked. `body` must not do I/O.
    func change<T: Sendable, E: Error>(_ body: (inout BlobTable) throws(E) -> T) throws(E) -> T {
        try accounts.tables.state.withLock { state throws(E) in try body(&state.blobs) }
    }

    /// Adds the rows of the index to the empty tables, with a reference to the blob of each.
    func adopt(_ images: ImageTable) {
        var order = S3FIFO()
        // The most recently used image is evicted last.
        for slot in images.slotsByLastUse {
            guard let entry = images[slot] else { continue }
            // The lock is held for one image at a time, so that other threads do not wait.
            let space = change { table in
                let space = table.space(of: entry.size)
                // The disk space is estimated, because a stat(2) of each file would delay the start. The first sweep
                // corrects it.
                table.adopt(entry.digest, bytes: space)
                if entry.isPinned { table.countPin(entry.digest, 1) }
                return space
            }
            order.insert(slot, fingerprint: entry.key.fingerprint, size: space)
        }
        accounts.tables.state.withLock { ($0.images, $0.loadedOrder) = (images, order) }
    }

    func setOpening(_ opening: IndexOpening) { accounts.tables.state.withLock { $0.opening = opening } }

    func setWriteProblem(_ problem: ImageError?) { accounts.tables.state.withLock { $0.writeProblem = problem } }
}

/// The references and the disk space of blobs: what any thread may read, and what writers reserve. All methods access
/// only memory.
struct BlobAccounts: Sendable {
    let tables: CacheTables

    fileprivate init(_ tables: CacheTables) { self.tables = tables }

    func read<T: Sendable>(_ body: (borrowing BlobTable) -> T) -> T { tables.state.withLock { body($0.blobs) } }

    /// Whether work that takes long, on the index or its copy, must end, because the agent stops.
    var isInterrupted: Bool {
        get { tables.isInterrupted }
        nonmutating set { tables.isInterrupted = newValue }
    }

    // MARK: Writers

    /// Counts a new writer; see ``BlobTable/addWriter(_:free:)``. `length` is the declared length in bytes, or 0.
    func addWriter(_ length: Int, free: Int) throws(ImageError) -> Int {
        try tables.state.withLock { state throws(ImageError) in
            try state.blobs.addWriter(state.blobs.space(of: length), free: free)
        }
    }

    /// Reserves disk space for bytes that a writer received; see ``SpaceLedger/reserve(_:isNew:free:)``.
    func reserve(_ bytes: Int, isNew: Bool, free: Int) throws(ImageError) {
        try tables.state.withLock { state throws(ImageError) in
            try state.blobs.reserve(bytes, isNew: isNew, free: free)
        }
    }

    func excess(free: Int) -> SpaceShortage? { tables.state.withLock { $0.blobs.excess(free: free) } }

    /// Counts reserved bytes that were written.
    func wrote(_ bytes: Int) { tables.state.withLock { $0.blobs.ledger.wrote(bytes) } }

    /// Releases the reservation of a writer that publishes no image.
    func settle(reserved: Int, written: Int) {
        tables.state.withLock { $0.blobs.ledger.settle(reserved: reserved, written: written) }
    }

    // MARK: Blobs

    var usage: SpaceUsage { read { $0.usage } }

    /// `bytes` is the disk space of leased blobs, that is, of blobs with references other than those of rows.
    /// `leftoverBytes` is the part of it that belongs to blobs without a row.
    var leases: (bytes: Int, leftoverBytes: Int) { read { ($0.leasedBytes, $0.leftoverBytes) } }

    /// The blobs that must not be evicted because they are leased or pinned: their number, and their disk space
    /// including that of their directories.
    var retained: (bytes: Int, count: Int) { read { ($0.retainedBytes, $0.retained.count) } }

    var limits: SpaceLimits { read { $0.ledger.limits } }

    /// Adds a reference (a lease). Returns false if there is no such blob.
    func retain(_ digest: BlobDigest) -> Bool {
        tables.state.withLock { $0.blobs.retain(digest, ifVerified: false) }
    }

    /// Whether a blob can be served without opening its file first, because this process has verified the file.
    func isVerified(_ digest: BlobDigest) -> Bool { read { $0.isVerified(digest) } }

    /// The number of rows that refer to a blob.
    func rowCount(of digest: BlobDigest) -> Int { read { $0.rowCount(of: digest) } }
}

/// The cached images and the order of their eviction. ``ImageCache`` holds the only instance.
///
/// The type is not `Sendable`, so the compiler refuses a change from outside the actor.
final class ImageCatalog {
    private let tables: CacheTables
    /// Raised when uses or releases have to be fetched.
    private let signal: Signal
    /// As in ``ImageCacheView/fingerprint``.
    let fingerprint: UInt64
    private var order = S3FIFO()
    /// The slots of images that were used after their rows were last written, with the time of the last use.
    private var touched: [UInt32: UInt32] = [:]
    /// The fetched uses. The array is kept because its memory is exchanged with that of the next batch.
    private var batch = UseBatch()

    init(_ tables: CacheTables, _ settings: ImageCacheSettings, fingerprint: UInt64, signal: Signal) {
        (self.tables, self.fingerprint, self.signal) = (tables, fingerprint, signal)
        update(settings)
    }

    var keys: ImageKeyResolver { tables.read { $0.keys } }

    /// Applies new settings. Call ``ImageCacheView/settingsChanged()`` then.
    func update(_ settings: ImageCacheSettings) {
        tables.state.withLock { state in
            state.keys = ImageKeyResolver(settings.origins)
            state.maximumAge = settings.maximumAge
            state.blobs.ledger.limits = settings.space
            state.blobs.imageLimits = settings.images
        }
    }

    var hasMaximumAge: Bool { tables.state.withLock { $0.maximumAge != nil } }

    /// The number of images.
    var count: Int { tables.state.withLock { $0.images.count } }

    func count(_ change: (inout ImageStatistics) -> Void) { tables.state.withLock { change(&$0.statistics) } }

    // MARK: Events from other threads

    /// Releases of references.
    struct Releases: Sendable {
        /// The blobs whose last reference was released.
        var unreferenced: [BlobDigest] = []
        /// Whether a lease was released while a transfer waited for disk space.
        var mayMakeRoom = false
    }

    /// Applies the uses of images to the order, and returns the releases since the last call.
    func takeReleases() -> Releases {
        signal.take()
        applyUses()
        return tables.state.withLock { state in
            defer { state.releases = Releases() }
            return state.releases
        }
    }

    /// Sets whether any transfer waits for disk space. While one does, each released lease wakes the actor.
    func setSpaceAwaited(_ isAwaited: Bool) { tables.state.withLock { $0.isSpaceAwaited = isAwaited } }

    /// Applies the uses that other threads have counted. Precedes each change of the images, because the slot of a
    /// removed image is reused.
    private func applyUses() {
        batch.uses.removeAll(keepingCapacity: true)
        tables.state.withLock { state in
            swap(&state.uses, &batch)
            guard let loaded = state.loadedOrder else { return }
            (order, state.loadedOrder) = (loaded, nil)
        }
        var last: (slot: UInt32, time: UInt32)?
        for use in batch.uses where order.touch(use.slot) {
            // Successive uses are often those of one image.
            if let last, last == use { continue }
            touched[use.slot] = use.time
            last = use
        }
    }

    /// Changes the images.
    private func change<T: Sendable>(_ body: (inout CacheTables.State) -> T) -> T {
        applyUses()
        return tables.state.withLock { body(&$0) }
    }

    // MARK: Lookup

    /// The cached image that may answer a request, whether or not its file is verified; nil if there is none. Does not
    /// count as a use.
    func usableEntry(_ location: CacheLocation, _ expected: BlobDigest?, now: Int) -> ImageEntry? {
        tables.state.withLock { state in
            state.images.slot(of: location.key, expected, now, maximumAge: state.maximumAge)
                .flatMap { state.images[$0] }
        }
    }

    /// The image of a key, even if it is older than the settings allow.
    func entry(_ key: ImageKey) -> ImageEntry? {
        tables.state.withLock { state in state.images.slot(of: key).flatMap { state.images[$0] } }
    }

    /// The details of an image; nil if they have not been loaded.
    func details(of entry: ImageEntry) -> ImageDetails? {
        tables.state.withLock { state in
            guard let slot = state.images.slot(of: entry.key), state.images[slot]?.digest == entry.digest else {
                return nil
            }
            return state.details[slot]
        }
    }

    /// Sets the details of an image, unless it has been replaced in the meantime.
    func setDetails(_ details: ImageDetails, of entry: ImageEntry) {
        tables.state.withLock { state in
            guard let slot = state.images.slot(of: entry.key), state.images[slot] == entry else { return }
            state.details[slot] = details
        }
    }

    /// The blobs of the images in a range of slots, and the slot where the next call continues, which is nil at the
    /// end.
    func digests(from slot: UInt32, count: UInt32 = 1024) -> (digests: [BlobDigest], next: UInt32?) {
        tables.state.withLock { state in
            let end = min(slot + count, state.images.slotCount)
            let digests = (slot..<max(slot, end)).compactMap { state.images[$0]?.digest }
            return (digests, end < state.images.slotCount ? end : nil)
        }
    }

    // MARK: Changes

    /// Adds or replaces an image, and turns one of the caller's references to its blob into that of the image.
    ///
    /// - Returns: the previous image with the same key. Its reference stays until ``releaseRows(of:)``
    func put(_ entry: ImageEntry, _ details: ImageDetails?) -> ImageEntry? {
        change { state in
            state.blobs.addRow(entry.digest)
            let old = insert(entry, into: &state)
            if let slot = state.images.slot(of: entry.key) { state.details[slot] = details }
            return old
        }
    }

    /// Removes an image, unless it has been replaced in the meantime. The reference to its blob stays until
    /// ``releaseRows(of:)``.
    func remove(_ entry: ImageEntry) -> Bool {
        change { state in
            guard let slot = state.images.slot(of: entry.key), state.images[slot]?.digest == entry.digest else {
                return false
            }
            return remove(slot, from: &state) != nil
        }
    }

    /// Restores an image whose removal failed.
    ///
    /// - Returns: false if another image with the same key has been added in the meantime
    func restore(_ entry: ImageEntry) -> Bool {
        change { state in
            guard state.images.slot(of: entry.key) == nil else { return false }
            _ = insert(entry, into: &state)
            return true
        }
    }

    /// Pins or unpins an image.
    ///
    /// - Returns: false if the image is not cached
    func pin(_ key: ImageKey, _ isPinned: Bool) -> Bool {
        change { state in
            guard let slot = state.images.slot(of: key), let entry = state.images[slot] else { return false }
            if entry.isPinned != isPinned { state.blobs.countPin(entry.digest, isPinned ? 1 : -1) }
            state.images.update(slot, isPinned: isPinned)
            return true
        }
    }

    /// Releases the references of images that were removed, after their rows were deleted.
    ///
    /// - Returns: the blobs that have no other reference
    func releaseRows(of digests: [BlobDigest]) -> [BlobDigest] {
        tables.state.withLock { state in digests.filter { state.blobs.release($0, isRow: true) } }
    }

    /// Removes a batch of images that may be evicted.
    ///
    /// - Returns: the images, and whether no other image may be evicted
    func takeVictims(limit: Int, bytes: Int) -> (entries: [ImageEntry], isExhausted: Bool) {
        change { state in
            let slice = order.nextVictims(limit: limit, bytes: bytes, releases: state.blobs.releases) { slot in
                guard let entry = state.images[slot] else { return false }
                return entry.isPinned || state.blobs.isLeased(entry.digest)
            }
            return (slice.victims.compactMap { remove($0, from: &state) }, slice.isExhausted)
        }
    }

    /// Removes the images that are older than the settings allow from a range of slots.
    ///
    /// - Returns: the removed images, and the slot where the next call continues, which is nil at the end
    func takeExpired(from slot: UInt32, limit: Int, now: Int) -> (entries: [ImageEntry], next: UInt32?) {
        change { state in take(&state, from: slot, limit: limit) { $0.isTooOld(now, maximumAge: $1.maximumAge) } }
    }

    /// Removes the images whose files are missing from a range of slots. Images that were downloaded again in the meantime
    /// stay, because their blobs are verified.
    ///
    /// - Returns: the removed images
    func takeMissing(_ missing: Set<BlobDigest>, from slot: UInt32) -> [ImageEntry] {
        change { state in
            take(&state, from: slot, limit: .max) { entry, state in
                missing.contains(entry.digest) && !state.blobs.isVerified(entry.digest)
            }.entries
        }
    }

    /// Removes the images that meet a condition from a range of slots.
    ///
    /// - Parameter isIncluded: called while the tables are locked, so it must not use them
    /// - Returns: the removed images, and the slot where the next call continues, which is nil at the end
    func take(
        from slot: UInt32, limit: Int = .max, where isIncluded: (ImageEntry) -> Bool
    ) -> (entries: [ImageEntry], next: UInt32?) {
        change { state in take(&state, from: slot, limit: limit) { entry, _ in isIncluded(entry) } }
    }

    private func take(
        _ state: inout CacheTables.State, from slot: UInt32, count: UInt32 = 1024, limit: Int,
        where isIncluded: (ImageEntry, borrowing CacheTables.State) -> Bool
    ) -> (entries: [ImageEntry], next: UInt32?) {
        var entries: [ImageEntry] = []
        var next = slot
        while next < slot + count, next < state.images.slotCount, entries.count < limit {
            if let entry = state.images[next], isIncluded(entry, state), let removed = remove(next, from: &state) {
                entries.append(removed)
            }
            next += 1
        }
        return (entries, next < state.images.slotCount ? next : nil)
    }

    /// Returns the times of last use that the index does not have yet, of at most `limit` images. Later calls return a
    /// time again only after another use of the image.
    func takeTouches(limit: Int) -> [(key: ImageKey, time: Int)] {
        applyUses()
        let uses = Array(touched.prefix(limit))
        for use in uses { touched[use.key] = nil }
        return tables.state.withLock { state in
            uses.compactMap { use in state.images[use.key].map { ($0.key, Int(use.value)) } }
        }
    }

    private func insert(_ entry: ImageEntry, into state: inout CacheTables.State) -> ImageEntry? {
        let (slot, old) = state.images.put(entry)
        if entry.isPinned { state.blobs.countPin(entry.digest, 1) }
        if let old, old.isPinned { state.blobs.countPin(old.digest, -1) }
        // A new response for the same body counts as a use. A new body may have another size, so the image enters the
        // eviction queues anew.
        if old?.digest == entry.digest {
            order.touch(slot)
        } else {
            if old != nil { order.remove(slot) }
            order.insert(slot, fingerprint: entry.key.fingerprint, size: state.blobs.space(of: entry.size))
        }
        return old
    }

    private func remove(_ slot: UInt32, from state: inout CacheTables.State) -> ImageEntry? {
        guard let entry = state.images.remove(slot) else { return nil }
        if entry.isPinned { state.blobs.countPin(entry.digest, -1) }
        order.remove(slot)
        touched[slot] = nil
        state.details[slot] = nil
        return entry
    }
}

// MARK: Invariants, which tests check

extension ImageCatalog {
    /// The first difference between the tables and the order, for tests; nil if they agree. No request may run.
    var inconsistency: String? {
        applyUses()
        return tables.read { state in
            let slots = (0..<state.images.slotCount).filter { state.images[$0] != nil }
            if order.slots != Set(slots) { return "the queues have other images than the table" }
            let pins = Set(slots.compactMap { state.images[$0] }.filter(\.isPinned).map(\.digest))
            if Set(state.blobs.entries.filter { $0.value.pins > 0 }.keys) != pins { return "the pinned blobs" }
            return state.images.inconsistency ?? order.inconsistency ?? state.blobs.inconsistency
        }
    }
}
