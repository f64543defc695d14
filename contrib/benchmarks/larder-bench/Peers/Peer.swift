import LarderJSON

/// A server to measure. All servers are measured with the same code, and differ only in their requests and in the
/// framing of replies.
struct Peer: Sendable {
    /// The protocol of the server.
    enum Kind: Sendable {
        /// The agent: JSON-RPC, one message per line.
        case larder
        /// Redis, or any server that implements RESP2.
        case redis
        /// etcd: its JSON gateway over HTTP.
        case etcd
        /// contrib/benchmarks/floor: accepts the requests of the agent and replies without parsing them.
        case floor
    }

    let kind: Kind
    let socketPath: String

    /// The name in reports.
    var name: String {
        switch kind {
        case .larder: "larder"
        case .redis: "redis"
        case .etcd: "etcd"
        case .floor: "floor"
        }
    }

    var framing: ReplyFraming {
        switch kind {
        case .larder, .floor: .line
        case .redis: .resp
        case .etcd: .http
        }
    }

    /// The request that sets `value` at `path` in `namespace`. Redis and etcd set the key `path` to a string, which for
    /// etcd must consist of letters and digits, or to the JSON text of another value.
    func setRequest(path: String, namespace: String, value: JSONValue) -> [UInt8] {
        let text = value.string ?? value.compactText
        return switch kind {
        case .larder, .floor: LarderRequest.set(path: path, namespace: namespace, value: value)
        case .redis: RedisRequest.command("SET", path, text)
        case .etcd: EtcdRequest.put(key: path, value: text)
        }
    }

    /// The request for the value at `path`. `id` distinguishes the requests in one write.
    func getRequest(path: String, namespace: String, id: Int) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.get(path: path, namespace: namespace, id: id)
        case .redis: RedisRequest.command("GET", path)
        case .etcd: EtcdRequest.range(key: path)
        }
    }

    /// The request that subscribes to `path`. Redis subscribes to the channel `path`; etcd watches the key `path`.
    func subscribeRequest(path: String, namespace: String) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.subscribe(path: path, namespace: namespace)
        case .redis: RedisRequest.command("SUBSCRIBE", path)
        case .etcd: EtcdRequest.watch(key: path)
        }
    }

    /// The request that publishes `value` to all subscribers. If `durable`, the server writes `value` to disk before it
    /// publishes it, provided that ``checkDurability(_:namespace:durable:)`` succeeded.
    /// - Returns: the bytes to send and the number of replies
    func publishRequest(path: String, namespace: String, value: String, durable: Bool) -> (bytes: [UInt8], replies: Int)
    {
        switch kind {
        case .larder, .floor:
            (LarderRequest.set(path: path, namespace: namespace, value: .string(value)), 1)
        case .redis where durable:
            // Both in one write: Redis flushes the SET to disk before it sends the replies and messages of the same
            // event loop iteration.
            (RedisRequest.command("SET", path, value) + RedisRequest.command("PUBLISH", path, value), 2)
        case .redis:
            (RedisRequest.command("PUBLISH", path, value), 1)
        case .etcd:
            (EtcdRequest.put(key: path, value: value), 1)
        }
    }

    /// The error in a reply; nil for a successful reply.
    func failure(in reply: UnsafeRawBufferPointer) -> BenchError? {
        let failed =
            switch kind {
            case .redis: reply.first == UInt8(ascii: "-")
            case .larder, .floor: LarderRequest.isError(reply)
            case .etcd: EtcdRequest.isError(reply)
            }
        return failed ? BenchError("\(name) replied with an error: \(ReplyText.excerpt(reply))") : nil
    }

    /// The number of bytes at the start of a successful reply that do not depend on the value.
    ///
    /// Comparing these bytes with one `memcmp` distinguishes successful replies from errors and from replies to other
    /// requests.
    /// - Returns: nil if the reply has no value, and always nil for etcd.
    func fixedPrefixLength(of reply: [UInt8]) -> Int? {
        switch kind {
        case .larder, .floor:
            ReplyText.end(of: "\"result\":", in: reply)
        case .redis:
            reply.first == UInt8(ascii: "$") && reply.dropFirst().first != UInt8(ascii: "-")
                ? ReplyText.end(of: "\r\n", in: reply) : nil
        case .etcd:
            nil
        }
    }
}
