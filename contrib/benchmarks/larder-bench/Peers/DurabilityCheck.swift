extension Peer {
    /// Makes sure that a publication will be on disk, or need not be, as the measurement says it is.
    ///
    /// Redis has to run with `appendonly yes` and `appendfsync always`; the agent's namespace has to be declared with
    /// `durability: "full"`, or with `"relaxed"` for the other measurement. The floor is what its start made it.
    func checkDurability(_ control: ControlConnection, namespace: String, durable: Bool) throws(BenchError) {
        switch kind {
        case .floor:
            return
        case .etcd:
            // etcd writes every change to disk before it replies or notifies watchers.
            guard (kind == .etcd) == durable else {
                throw BenchError(.unsuitable, "\(name) cannot do that: leave it out")
            }
        case .larder:
            let wanted = durable ? "full" : "relaxed"
            let status = try control.ask(LarderRequest.status(namespace: namespace))
            guard ReplyText.end(of: "\"durability\":\"\(wanted)\"", in: status[0]) != nil else {
                throw BenchError(
                    .unsuitable,
                    "larder: namespace \"\(namespace)\" does not have durability \"\(wanted)\": choose one with --namespace"
                )
            }
        case .redis:
            let appends = try isSet(control, "appendonly", "yes")
            let syncs = try isSet(control, "appendfsync", "always")
            guard (appends && syncs) == durable else {
                throw BenchError(
                    .unsuitable,
                    durable
                        ? "redis: start it with --appendonly yes --appendfsync always for --durable"
                        : "redis: start it with --appendonly no where --durable is not asked for")
            }
        }
    }

    private func isSet(_ control: ControlConnection, _ setting: String, _ value: String) throws(BenchError) -> Bool {
        let answer = try control.ask(RedisRequest.command("CONFIG", "GET", setting))
        return ReplyText.end(of: "\r\n\(value)\r\n", in: answer[0]) != nil
    }
}
