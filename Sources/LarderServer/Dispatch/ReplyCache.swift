import CLinuxShims
import LarderJSON
import LarderConfig
import NIOCore
import Glibc

/// Replies to reads of the current snapshot, kept by the request without its id, so that a read which comes
/// again and again is parsed, looked up and encoded once for each revision. One for each event loop.
///
/// A reply counts only while what it was read from is current; that is asked of the publication each time.
struct ReplyCache {
    /// What there is for a request.
    enum Found {
        case nothing
        /// The whole reply is in the output.
        case written
        /// Its beginning is in the output. The rest is too large to be copied each time, and follows by itself.
        case begun(ByteBuffer)
    }

    private final class Entry {
        let publication: ConfigPublication
        let version: Int
        /// The text before the id, the text behind it, and what follows the id in the reply, with its line end: in one
        /// piece, so that a look at them counts no references.
        private let bytes: UnsafeMutableRawBufferPointer
        private let headCount: Int
        private let restCount: Int
        /// A large reply, in the place of ``tail``.
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
    /// Replies up to this size are copied behind each other, so that pipelined ones make one write. Larger ones are written
    /// from where they are: to copy them costs more than a system call.
    static let maxCopiedBytes = 32 * 1024
    /// What all large replies come to at most.
    static let maxLargeBytes = 2 << 20

    private var entries = [Entry?](repeating: nil, count: slots)
    /// What the large ones come to.
    private var largeBytes = 0

    /// How many replies are held.
    var count: Int { entries.count { $0 != nil } }

    /// Appends the reply or its beginning, if it is known and still right, and the peer may read what it is of.
    mutating func append(for template: RequestTemplate, with rights: PeerRights, to output: inout JSONWriter) -> Found {
        let slot = template.slot(of: Self.slots)
        guard let entry = entries[slot] else { return .nothing }
        guard entry.version == entry.publication.version else {
            // It will never be right again, and it holds on to its publication, which may have ended.
            put(nil, at: slot)
            return .nothing
        }
        guard entry.isFor(template), rights.mayRead(entry.publication.namespace) else { return .nothing }
        Self.appendHead(id: template.id, to: &output)
        if let body = entry.body { return .begun(body) }
        withExtendedLifetime(entry) { output.rawUnframed(entry.tail) }
        return .written
    }

    /// Keeps a reply. Not that of a namespace which left while it was being read: nothing would ever tell that the reply
    /// is wrong.
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

    /// Makes room for another large reply. Those that are asked for are kept again at their next turn.
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
