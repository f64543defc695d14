import Glibc

/// The prefixes of successful replies to the requests of a batch. Each prefix ends before the value in the reply.
///
/// The prefixes of the agent's replies include the IDs, so a match also shows that the replies have the order of the
/// requests.
final class ReplyPrefixes {
    private let prefixes: [PreparedBytes]

    /// Checks that `replies` are correct, and takes the prefixes from them.
    /// - Throws: an error if a reply does not contain `value`, or does not have the ID of its request.
    init(_ replies: [[UInt8]], of peer: Peer, value: String, firstID: Int) throws(BenchError) {
        var prefixes: [PreparedBytes] = []
        for (position, reply) in replies.enumerated() {
            let length = peer.fixedPrefixLength(of: reply)
            let fits =
                switch peer.kind {
                case .floor: length != nil
                case .redis, .etcd: length != nil && ReplyText.end(of: value, in: reply) != nil
                case .larder:
                    length != nil && ReplyText.end(of: value, in: reply) != nil
                        && ReplyText.end(of: "\"id\":\(firstID + position)", in: reply) != nil
                }
            guard fits, let length else {
                let excerpt = reply.withUnsafeBytes(ReplyText.excerpt)
                throw BenchError("\(peer.name) did not return the value that was set: \(excerpt)")
            }
            prefixes.append(PreparedBytes(Array(reply[..<length])))
        }
        self.prefixes = prefixes
    }

    /// Whether `reply` begins with the prefix for the request at `position`.
    @inline(__always)
    func match(_ reply: UnsafeRawBufferPointer, at position: Int) -> Bool {
        let prefix = prefixes[position].buffer
        guard let wanted = prefix.baseAddress, let bytes = reply.baseAddress else { return false }
        return reply.count >= prefix.count && memcmp(bytes, wanted, prefix.count) == 0
    }
}
