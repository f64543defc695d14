/// A server to be measured. All are driven by the same code: they differ in the bytes of their requests and in how
/// the end of a reply is found.
struct Peer: Sendable {
    /// Which protocol the server speaks.
    enum Kind: Sendable {
        /// The agent: JSON-RPC, one message per line.
        case larder
        /// Redis or anything that speaks RESP2.
        case redis
        /// etcd: its JSON gateway over HTTP.
        case etcd
        /// contrib/benchmarks/floor: takes the agent's requests, and answers without understanding them.
        case floor
    }

    let kind: Kind
    let socketPath: String

    /// What reports call it.
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

    /// Sets `value` (letters and digits) at `path` in `namespace`; in Redis and etcd under the key `path`.
    func setRequest(path: String, namespace: String, value: String) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.set(path: path, namespace: namespace, value: value)
        case .redis: RedisRequest.command("SET", path, value)
        case .etcd: EtcdRequest.put(key: path, value: value)
        }
    }

    /// Sets the text of a JSON value at `path` in `namespace`; in Redis as a string under the key `path`.
    func setRequest(path: String, namespace: String, json: [UInt8]) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.set(path: path, namespace: namespace, json: json)
        case .redis: RedisRequest.command("SET", path, String(decoding: json, as: UTF8.self))
        case .etcd: preconditionFailure("etcd takes strings only")
        }
    }

    /// Asks for the value at `path`; `id` tells the requests of one write apart.
    func getRequest(path: String, namespace: String, id: Int) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.get(path: path, namespace: namespace, id: id)
        case .redis: RedisRequest.command("GET", path)
        case .etcd: EtcdRequest.range(key: path)
        }
    }

    /// Subscribes to `path` (nil: the whole document); in Redis to the channel `channel`, in etcd to the key of that name.
    func subscribeRequest(path: String?, namespace: String, channel: String) -> [UInt8] {
        switch kind {
        case .larder, .floor: LarderRequest.subscribe(path: path, namespace: namespace)
        case .redis: RedisRequest.command("SUBSCRIBE", channel)
        case .etcd: EtcdRequest.watch(key: channel)
        }
    }

    /// Sends `value` to all subscribers, once it is on disk if `durable` (with what ``checkDurability(_:namespace:_:)`` asks for).
    /// - Returns: the request and how many replies it gets.
    func publishRequest(path: String, namespace: String, value: String, durable: Bool) -> (bytes: [UInt8], replies: Int)
    {
        switch kind {
        case .larder, .floor:
            (LarderRequest.set(path: path, namespace: namespace, value: value), 1)
        case .redis where durable:
            // Both in one write: Redis puts the SET on disk before it sends the replies and messages of that turn.
            (RedisRequest.command("SET", path, value) + RedisRequest.command("PUBLISH", path, value), 2)
        case .redis:
            (RedisRequest.command("PUBLISH", path, value), 1)
        case .etcd:
            (EtcdRequest.put(key: path, value: value), 1)
        }
    }

    /// The error that a reply carries; nil for a good one.
    func failure(in reply: UnsafeRawBufferPointer) -> BenchError? {
        let failed =
            switch kind {
            case .redis: reply.first == UInt8(ascii: "-")
            case .larder, .floor: LarderRequest.isError(reply)
            case .etcd: EtcdRequest.isError(reply)
            }
        return failed ? BenchError(.refused, "\(name) answered with an error: \(ReplyText.excerpt(reply))") : nil
    }

    /// How many bytes at the start of a good reply are the same every time, whatever value it carries.
    ///
    /// Comparing these bytes tells a good reply from an error, and one reply from the next, at the price of a `memcmp`.
    /// - Returns: nil when the reply does not carry a value.
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
