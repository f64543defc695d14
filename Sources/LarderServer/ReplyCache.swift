import JSON
import LarderConfig

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Answers to reads of the current snapshot, kept by the text of their parameters, so that a value which is read again
/// and again is looked up and encoded once for each revision. One for each event loop.
///
/// An entry counts only while its snapshot and state are the current ones; that is asked of the publication each time.
struct ReplyCache {
    private struct Entry {
        var parameters: [UInt8]
        var publication: ConfigPublication
        var revision: Int
        var freshness: Freshness
        /// What follows the id in the reply, with its line end.
        var tail: [UInt8]
    }

    private static let slots = 256
    /// Larger replies are copied in less time than it takes to notice the difference.
    private static let largestTail = 16 * 1024
    private static let largestParameters = 256

    private var entries = [Entry?](repeating: nil, count: slots)

    /// Appends the rest of a reply, if it is known and still right.
    func append(for parameters: UnsafeRawBufferPointer, to output: inout JSONWriter) -> Bool {
        guard parameters.count <= Self.largestParameters else { return false }
        guard let entry = entries[Self.slot(parameters)], Self.isSame(entry.parameters, parameters) else {
            return false
        }
        let current = entry.publication.current
        guard current.snapshot.revision == entry.revision, current.freshness == entry.freshness, !current.hasEnded
        else { return false }
        entry.tail.withUnsafeBytes { output.rawUnframed($0) }
        return true
    }

    /// Keeps the rest of a reply.
    mutating func keep(
        _ tail: ArraySlice<UInt8>, for parameters: UnsafeRawBufferPointer, _ publication: ConfigPublication,
        _ current: ConfigPublication.Current
    ) {
        guard parameters.count <= Self.largestParameters, tail.count <= Self.largestTail else { return }
        entries[Self.slot(parameters)] = Entry(
            parameters: Array(parameters), publication: publication, revision: current.snapshot.revision,
            freshness: current.freshness, tail: Array(tail))
    }

    private static func isSame(_ known: [UInt8], _ parameters: UnsafeRawBufferPointer) -> Bool {
        guard known.count == parameters.count, let text = parameters.baseAddress else { return false }
        return known.withUnsafeBytes { memcmp($0.baseAddress ?? text, text, parameters.count) == 0 }
    }

    /// FNV-1a over eight bytes at a time: whoever makes slots collide only takes the benefit from himself.
    private static func slot(_ bytes: UnsafeRawBufferPointer) -> Int {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        var offset = 0
        while offset + 8 <= bytes.count {
            hash = (hash ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0x0000_0100_0000_01b3
            hash ^= hash >> 29
            offset += 8
        }
        while offset < bytes.count {
            hash = (hash ^ UInt64(bytes[offset])) &* 0x0000_0100_0000_01b3
            offset += 1
        }
        return Int(truncatingIfNeeded: (hash ^ (hash >> 32)) & UInt64(slots - 1))
    }
}
