import LarderClient

/// `larder clients` for people: one line for each connection.
struct ClientsTable {
    /// The time that ages are counted from.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["ID", "PID", "UID", "COMMAND", "CONNECTED", "REQUESTS", "SUBS", "IN", "OUT", "PENDING", "RUNS"],
        figures: [0, 1, 2, 5, 6, 7, 8, 9])

    /// The whole table without its last line end.
    func text(_ clients: [AgentClients.Client]) -> String { Self.table.text(clients.map(row)) }

    private func row(_ client: AgentClients.Client) -> [String] {
        [
            "\(client.id)", "\(client.peer.pid)", "\(client.peer.uid)",
            client.command.isEmpty ? "?" : client.command.printable,
            Human.ago(milliseconds: now.milliseconds - client.connectedAt.milliseconds),
            "\(client.requests)", "\(client.subscriptions)",
            Human.bytes(client.bytesReceived), Human.bytes(client.bytesSent), Human.bytes(client.pendingBytes),
            client.acknowledged.map(Self.acknowledged).joined(separator: ", "),
        ]
    }

    /// What a client says of a namespace's snapshot: `41`, `web 7`, `not web 8: the port is taken`.
    private static func acknowledged(_ said: AgentClients.Acknowledgement) -> String {
        let snapshot = (said.namespace == defaultNamespace ? "" : "\(said.namespace) ") + "\(said.revision)"
        if said.accepted { return snapshot.printable }
        return "not \(snapshot)\(said.reason.map { ": \($0)" } ?? "")".printable
    }
}
