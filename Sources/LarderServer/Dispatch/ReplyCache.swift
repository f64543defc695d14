import Glibc
import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore

/// Caches replies that were read from a current snapshot, by request template. So a repeated read is not parsed, looked
/// up and encoded again until a new revision is published. Each event loop has its own cache.
///
/// A reply is valid while the publication has the version that the reply was made from. This is checked at each use.
struct ReplyCache {
    struct CachedReply {
        let publication: ConfigPublication
        let version: Int
        /// The rights that a peer needs for the request. They are checked each time the cached reply is used.
        let requirement: Requirement
        /// The text of a large reply; nil for a small reply, whose text is the payload of its entry.
        let body: ByteBuffer?
    }

    typealias Entry = RequestCache<CachedReply>.Entry

    private static let slots = 256
    /// Replies up to this size are copied into the output buffer, so that replies to pipelined requests are sent with
    /// one system call. Copying a larger one costs more than a separate system call.
    static let maxCopiedBytes = 32 * 1024
    /// The maximum size of all large replies together.
    static let maxLargeBytes = 2 << 20

    private var replies = RequestCache<CachedReply>(slots: slots)
    /// The size of the large replies together.
    private var largeBytes = 0
    /// The hashes of the templates that ``isRepeated(_:)`` was last called for, by slot.
    private var fingerprints = [UInt64](repeating: 0, count: slots)

    /// The number of cached replies.
    var count: Int { replies.count }

    /// Returns the cached reply to a request; nil if no valid one is cached. The caller checks whether the peer may
    /// have the reply.
    mutating func lookup(_ template: RequestTemplate) -> Entry? {
        guard let entry = replies.occupant(of: template) else { return nil }
        guard entry.value.version == entry.value.publication.version else {
            // An outdated reply never becomes valid again, and it would retain its publication, which may have ended.
            largeBytes -= entry.value.body?.readableBytes ?? 0
            replies.removeOccupant(of: template)
            return nil
        }
        return entry.matches(template) ? entry : nil
    }

    /// Writes a cached reply, or the beginning of a large one.
    /// - Returns: the rest of a large reply, which the caller must write without copying it
    static func append(_ entry: Entry, for template: RequestTemplate, to output: inout JSONWriter) -> ByteBuffer? {
        // The payload of an entry with a body is empty.
        withExtendedLifetime(entry) { appendHead(id: template.id, then: entry.payload, to: &output) }
        return entry.value.body
    }

    /// Whether the template was seen recently. Replies to other lines are not cached: caching takes a tenth of the time
    /// of a request and may evict a useful reply, and a line that occurs only once does not benefit.
    mutating func isRepeated(_ template: RequestTemplate) -> Bool {
        let slot = template.slot(of: Self.slots)
        defer { fingerprints[slot] = template.hash }
        return fingerprints[slot] == template.hash
    }

    /// Caches a reply of at most ``maxLargeBytes``.
    /// - Parameter tail: the part of the reply that follows the id
    mutating func keep(
        _ tail: ArraySlice<UInt8>, for template: RequestTemplate, requiring requirement: Requirement,
        _ source: SnapshotSource
    ) {
        if tail.count > Self.maxLargeBytes { return }
        let isLarge = tail.count > Self.maxCopiedBytes
        if isLarge, largeBytes + tail.count > Self.maxLargeBytes { dropLarge() }
        let reply = CachedReply(
            publication: source.publication, version: source.version, requirement: requirement,
            body: isLarge ? ByteBuffer(bytes: tail) : nil)
        let previous = replies.store(reply, payload: isLarge ? [] : tail, for: template)
        largeBytes += (isLarge ? tail.count : 0) - (previous?.value.body?.readableBytes ?? 0)
    }

    /// Removes all large replies to make room for another one. Those that are still requested are soon cached again.
    private mutating func dropLarge() {
        replies.removeAll { $0.body != nil }
        largeBytes = 0
    }

    /// Appends the beginning of a reply, `{"jsonrpc":"2.0","id":…`, and the bytes that follow the id.
    static func appendHead(id: UnsafeRawBufferPointer, then rest: UnsafeRawBufferPointer, to output: inout JSONWriter) {
        output.rawUnframed("{\"jsonrpc\":\"2.0\",\"id\":", id, rest)
    }

    /// The bytes between the id and the result of a reply.
    static var resultName: UnsafeRawBufferPointer {
        let text: StaticString = ",\"result\":"
        return UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}

/// The publication that a reply was read from, and the version of the snapshot.
struct SnapshotSource {
    let publication: ConfigPublication
    let version: Int

    /// - Returns: nil if replies that are made from the snapshot must not be cached, because the removal of the namespace
    ///   has begun. The version never changes again, so the replies would count as valid even after the removal.
    init?(_ publication: ConfigPublication, _ current: ConfigPublication.Current) {
        if current.hasEnded || current.isWithdrawn { return nil }
        (self.publication, version) = (publication, current.version)
    }
}

/// Caches values by request template, so that a repeated request is not parsed. Storing a value evicts the value of
/// another template with the same slot.
struct RequestCache<Value> {
    /// A template and its value.
    final class Entry {
        let value: Value
        /// The text before the id, the text after it, and the payload. They share one allocation, so that comparing and
        /// writing them needs no reference counting.
        private let bytes: UnsafeMutableRawBufferPointer
        private let headCount: Int
        private let restCount: Int

        fileprivate init(_ template: RequestTemplate, _ value: Value, payload: ArraySlice<UInt8>) {
            self.value = value
            (headCount, restCount) = (template.head.count, template.rest.count)
            bytes = .allocate(byteCount: headCount + restCount + payload.count, alignment: 1)
            bytes.copyBytes(from: template.head)
            UnsafeMutableRawBufferPointer(rebasing: bytes[headCount...]).copyBytes(from: template.rest)
            UnsafeMutableRawBufferPointer(rebasing: bytes[(headCount + restCount)...]).copyBytes(from: payload)
        }

        deinit { bytes.deallocate() }

        func matches(_ template: RequestTemplate) -> Bool {
            guard headCount == template.head.count, restCount == template.rest.count, let known = bytes.baseAddress,
                let head = template.head.baseAddress, let rest = template.rest.baseAddress
            else { return false }
            return memcmp(known + headCount, rest, restCount) == 0 && memcmp(known, head, headCount) == 0
        }

        /// The bytes that were stored with the value. Valid while the entry exists.
        var payload: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[(headCount + restCount)...]) }
    }

    private var entries: [Entry?]

    /// - Parameter slots: a power of two
    init(slots: Int) { entries = [Entry?](repeating: nil, count: slots) }

    /// The number of values.
    var count: Int { entries.count { $0 != nil } }

    /// The entry in the slot of a template. It may belong to another template; check with ``Entry/matches(_:)``.
    func occupant(of template: RequestTemplate) -> Entry? { entries[template.slot(of: entries.count)] }

    /// Stores a value and its payload.
    /// - Returns: the entry that was replaced, if any
    @discardableResult
    mutating func store(_ value: Value, payload: ArraySlice<UInt8> = [], for template: RequestTemplate) -> Entry? {
        let slot = template.slot(of: entries.count)
        let previous = entries[slot]
        entries[slot] = Entry(template, value, payload: payload)
        return previous
    }

    /// Empties the slot of a template.
    mutating func removeOccupant(of template: RequestTemplate) { entries[template.slot(of: entries.count)] = nil }

    /// Removes the values for which a predicate holds.
    mutating func removeAll(where isRemoved: (Value) -> Bool) {
        for slot in entries.indices where entries[slot].map({ isRemoved($0.value) }) ?? false { entries[slot] = nil }
    }
}
