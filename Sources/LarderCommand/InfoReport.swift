import LarderClient

/// `larder info` for people.
enum InfoReport {
    /// The whole report without its last line end.
    static func text(_ info: AgentInfo.Result) -> String {
        let uptime = Human.span(milliseconds: info.uptimeMilliseconds)
        var rows = [
            ("agent", "\(info.name) \(info.version), protocol \(info.protocolVersion)"),
            ("process", "\(info.pid), up \(uptime) since \(info.startedAt)"),
            ("socket", info.socket + (info.activated ? " (from systemd)" : "")),
            ("state", info.stateDirectory),
            (
                "images",
                info.imageDirectory ?? info.imageProblem.map { "none: \($0)" } ?? "none: the settings switch them off"
            ),
            ("settings", info.settings ?? "none: the defaults are in force"),
            ("epoch", info.epoch),
            ("namespaces", info.namespaces.joined(separator: ", ")),
            ("limits", limits(info.limits)),
            ("you", "process \(info.peer.pid), user \(info.peer.uid), group \(info.peer.gid)"),
        ]
        if let rights = rights(info) { rows.append(("rights", rights)) }
        return rows.map { "\($0.0.padded(to: 12))\($0.1.printable)" }.joined(separator: "\n")
    }

    /// What the caller may do; nil where the agent does not say.
    private static func rights(_ info: AgentInfo.Result) -> String? {
        guard let general = info.rights else { return nil }
        func list(_ rights: [Right]) -> String {
            rights.isEmpty ? "none" : rights.map(\.rawValue).joined(separator: ", ")
        }
        let own = (info.namespaceRights ?? [:]).sorted { $0.key < $1.key }
        return ([list(general)] + own.map { "in \($0.key): \(list($0.value))" }).joined(separator: "; ")
    }

    private static func limits(_ limits: AgentInfo.Limits) -> String {
        let perUser = limits.perUser.map {
            "; one user \($0.connections) connections, \($0.subscriptions) subscriptions, \($0.requestsInFlight) requests "
                + "at once, \(Human.bytes($0.queuedBytes)) waiting"
        }
        return "\(limits.connections) connections, each \(limits.subscriptionsPerConnection) subscriptions and "
            + "\(limits.requestsInFlightPerConnection) requests at once, lines of \(Human.bytes(limits.lineBytes)), "
            + "\(Human.span(milliseconds: limits.stallMilliseconds)) without reading\(perUser ?? "")"
    }
}
