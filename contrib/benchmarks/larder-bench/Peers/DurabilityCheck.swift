extension Peer {
    /// Checks that the server writes publications to disk as the measurement requires.
    ///
    /// A durable measurement requires Redis with `appendonly yes` and `appendfsync always`, or a namespace of the agent
    /// with `durability: "full"`. Any other measurement requires Redis without one of these settings, or a namespace
    /// with `durability: "relaxed"`; it is not possible with etcd. The floor server is not checked: its durability is
    /// chosen when it is started.
    func checkDurability(_ control: ControlConnection, namespace: String, durable: Bool) throws(BenchError) {
        switch kind {
        case .floor:
            return
        case .etcd:
            // etcd writes every change to disk before it replies or notifies watchers.
            guard durable else {
                throw BenchError("\(name) supports only durable writes; omit its socket or add --durable")
            }
        case .larder:
            let wanted = durable ? "full" : "relaxed"
            let status = try control.request(LarderRequest.status(namespace: namespace))
            guard ReplyText.end(of: "\"durability\":\"\(wanted)\"", in: status[0]) != nil else {
                throw BenchError("larder: namespace \"\(namespace)\" does not have durability \"\(wanted)\"; set it")
            }
        case .redis:
            let appends = try isSet(control, "appendonly", "yes")
            let syncs = try isSet(control, "appendfsync", "always")
            guard (appends && syncs) == durable else {
                throw BenchError(
                    durable
                        ? "redis: --durable requires redis-server --appendonly yes --appendfsync always"
                        : "redis: without --durable, start redis-server with --appendonly no")
            }
        }
    }

    private func isSet(_ control: ControlConnection, _ setting: String, _ value: String) throws(BenchError) -> Bool {
        let answer = try control.request(RedisRequest.command("CONFIG", "GET", setting))
        return ReplyText.end(of: "\r\n\(value)\r\n", in: answer[0]) != nil
    }
}
