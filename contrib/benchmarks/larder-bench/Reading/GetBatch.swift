import LarderJSON

/// Requests for one value that are sent in one write, and the prefixes of correct replies.
struct GetBatch {
    let peer: Peer
    /// The number of requests.
    let depth: Int
    let bytes: PreparedBytes
    let expected: ReplyPrefixes
    /// The process of the server; nil if the kernel does not report it.
    let serverProcess: Int32?

    /// Sets the value at `path`, and reads it once to learn the prefixes of the replies.
    init(
        peer: Peer, path: String = "search.limit", namespace: String = "default", value: JSONValue = "22",
        depth: Int = 1
    ) throws(BenchError) {
        let control = try ControlConnection(to: peer)
        try control.request(peer.setRequest(path: path, namespace: namespace, value: value))
        try self.init(control, of: peer, answering: value.string ?? value.compactText, depth: depth) { id in
            peer.getRequest(path: path, namespace: namespace, id: id)
        }
    }

    /// Makes the agent cache the image at `url`, and requests it again to learn the prefixes of the replies.
    init(peer: Peer, image url: String) throws(BenchError) {
        let control = try ControlConnection(to: peer)
        try control.request(LarderRequest.image(url, id: 100))
        try self.init(control, of: peer, answering: "\"source\":\"hit\"", depth: 1) { id in
            LarderRequest.image(url, id: id)
        }
    }

    private init(
        _ control: ControlConnection, of peer: Peer, answering value: String, depth: Int, request: (Int) -> [UInt8]
    ) throws(BenchError) {
        self.peer = peer
        self.depth = depth
        serverProcess = control.serverProcess
        // IDs of equal length, so that all requests have the same size.
        let firstID = 100_000
        let requests = (0..<depth).flatMap { request(firstID + $0) }
        bytes = PreparedBytes(requests)
        expected = try ReplyPrefixes(
            try control.request(requests, replies: depth), of: peer, value: value, firstID: firstID)
    }

    /// Returns the error for a reply that does not begin with the expected prefix.
    func mismatchError(_ reply: UnsafeRawBufferPointer) -> BenchError {
        peer.failure(in: reply)
            ?? BenchError("\(peer.name) sent an unexpected reply: \(ReplyText.excerpt(reply))")
    }
}
