import CLinuxShims
import LarderJSON
import LarderConfig
import NIOCore
import Glibc

/// Replies to reads of the current snapshot by request templates, so that a repeated read is parsed, looked up and encoded
/// once for each revision. One for each event loop.
///
/// A reply is valid while the publication has the version that it was made from; that is checked at each use.
struct ReplyCache {
    /// The outcome of a lookup.
    enum Found {
        case nothing
        /// The whole reply was written.
        case written
        /// The beginning was written. The rest is too large to copy; the caller writes it.
        case begun(ByteBuffer)
    }

    private final class Entry {
        let publication: ConfigPublication
        let version: Int
        /// The text before the id, the text behind it, and the text behind the id in the reply, with its line end: one
        /// allocation, so that comparing them counts no references.
        private let bytes: UnsafeMutableRawBufferPointer
        private let headCount: Int
        private let restCount: Int
        /// A large reply, instead of ``tail``.
        let body: ByteBuffer?

        init(
            _ template: RequestTemplate, _ publication: ConfigPublication, version: Int, tail: ArraySlice<UInt8>,
            body: ByteBuffer?
        ) {
            self.body = body
            self.publication = publication
            self.version = version
            (headCount, restCount) = (template.head.count, template.rest.count)
            bytes = .allocate(byteCount: headCount + restCount + tail.count, alignment: 1)
            bytes.copyBytes(from: template.head)
            UnsafeMutableRawBufferPointer(rebasing: bytes[headCount...]).copyBytes(from: template.rest)
            UnsafeMutableRawBufferPointer(rebasing: bytes[(headCount + restCount)...]).copyBytes(from: tail)
        }

        deinit { bytes.deallocate() }

        func isFor(_ template: RequestTemplate) -> Bool {
            guard headCount == template.head.count, restCount == template.rest.count, let known = bytes.baseAddress,
                let head = template.head.baseAddress, let rest = template.rest.baseAddress
            else { return false }
            return memcmp(known + headCount, rest, restCount) == 0 && memcmp(known, head, headCount) == 0
        }

        /// Valid as long as the entry is.
        var tail: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[(headCount + restCount)...]) }
    }

    private static let slots = 256
    /// Replies up to this size are copied, so that pipelined ones make one write. Copying a larger one costs more than a
    /// system call of its own.
    static let maxCopiedBytes = 32 * 1024
    /// The maximum size of all large replies together.
    static let maxLargeBytes = 2 << 20

    private var entries = [Entry?](repeating: nil, count: slots)
    /// The size of the large replies together.
    private var largeBytes = 0

    /// The number of cached replies.
    var count: Int { entries.count { $0 != nil } }

    /// Writes a cached reply or its beginning, if it is valid and the peer may read its namespace.
    mutating func append(for template: RequestTemplate, with rights: PeerRights, to output: inout JSONWriter) -> Found {
        let slot = template.slot(of: Self.slots)
        guard let entry = entries[slot] else { return .nothing }
        guard entry.version == entry.publication.version else {
            // It is never valid again, and it retains its publication, which may have ended.
            put(nil, at: slot)
            return .nothing
        }
        guard entry.isFor(template), rights.mayRead(entry.publication.namespace) else { return .nothing }
        Self.appendHead(id: template.id, to: &output)
        if let body = entry.body { return .begun(body) }
        withExtendedLifetime(entry) { output.rawUnframed(entry.tail) }
        return .written
    }

    /// Caches a reply, unless its namespace was removed while it was read: the version of that would not change again.
    /// - Parameter tail: what followed ``appendHead(id:to:)`` in the reply.
    mutating func keep(
        _ tail: ArraySlice<UInt8>, for template: RequestTemplate, _ publication: ConfigPublication,
        _ current: ConfigPublication.Current
    ) {
        guard tail.count <= Self.maxLargeBytes, !current.hasEnded, !current.isWithdrawn else { return }
        let isLarge = tail.count > Self.maxCopiedBytes
        if isLarge, largeBytes + tail.count > Self.maxLargeBytes { dropLarge() }
        put(
            Entry(
                template, publication, version: current.version, tail: isLarge ? [] : tail,
                body: isLarge ? ByteBuffer(bytes: tail) : nil), at: template.slot(of: Self.slots))
    }

    private mutating func put(_ entry: Entry?, at slot: Int) {
        largeBytes += (entry?.body?.readableBytes ?? 0) - (entries[slot]?.body?.readableBytes ?? 0)
        entries[slot] = entry
    }

    /// Makes room for another large reply. Replies that are read again are cached again.
    private mutating func dropLarge() {
        for slot in entries.indices where entries[slot]?.body != nil { put(nil, at: slot) }
    }

    /// Appends the beginning of a reply: `{"jsonrpc":"2.0","id":…`.
    static func appendHead(id: UnsafeRawBufferPointer, to output: inout JSONWriter) {
        output.rawUnframed("{\"jsonrpc\":\"2.0\",\"id\":")
        output.rawUnframed(id)
    }
}

extension JSONWriter {
    /// Appends a constant text as it is.
    mutating func rawUnframed(_ text: StaticString) {
        rawUnframed(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
