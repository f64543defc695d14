/// Requests for one value that leave in one write, and what good replies to them begin with.
struct GetBatch {
    let peer: Peer
    /// How many requests there are.
    let depth: Int
    let bytes: PreparedBytes
    let expected: ReplyPrefixes
    /// The process that serves; nil when the kernel does not say.
    let serverProcess: Int32?

    /// Sets the value at `path`, and reads it once to learn what the replies look like.
    init(peer: Peer, path: String, namespace: String, value: String, depth: Int) throws(BenchError) {
        self.peer = peer
        self.depth = depth
        let control = try ControlConnection(to: peer)
        serverProcess = control.serverProcess
        try control.ask(peer.setRequest(path: path, namespace: namespace, value: value))
        // Ids of one length, so that all requests have the same size.
        let firstID = 100_000
        let requests = (0..<depth).flatMap { peer.getRequest(path: path, namespace: namespace, id: firstID + $0) }
        bytes = PreparedBytes(requests)
        expected = try ReplyPrefixes(
            try control.ask(requests, replies: depth), of: peer, value: value, firstID: firstID)
    }

    /// What to say of a reply that does not match.
    func surprise(_ reply: UnsafeRawBufferPointer) -> BenchError {
        peer.failure(in: reply)
            ?? BenchError(.unexpected, "\(peer.name) sent a reply out of turn: \(ReplyText.excerpt(reply))")
    }
}
