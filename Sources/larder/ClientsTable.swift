import LarderClient

/// `larder clients` for people: one line for each connection.
struct ClientsTable {
    /// The time that ages are counted from.
    let now: Timestamp

    private static let headings = [
        "ID", "PID", "UID", "COMMAND", "CONNECTED", "REQUESTS", "SUBS", "IN", "OUT", "PENDING",
    ]
    /// The columns that hold text; the others hold figures and are aligned to the right.
    private static let textColumns: Set = [3, 4]

    /// The whole table without its last line end.
    func text(_ clients: [AgentClients.Client]) -> String {
        let rows = [Self.headings] + clients.map(row)
        let widths = Self.headings.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            row.enumerated().map { column, cell in
                Self.textColumns.contains(column)
                    ? cell.padded(to: widths[column]) : cell.rightAligned(to: widths[column])
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }

    private func row(_ client: AgentClients.Client) -> [String] {
        [
            "\(client.id)", "\(client.peer.pid)", "\(client.peer.uid)",
            client.command.isEmpty ? "?" : client.command.printable,
            Human.ago(milliseconds: now.milliseconds - client.connectedAt.milliseconds),
            "\(client.requests)", "\(client.subscriptions)",
            Human.bytes(client.bytesReceived), Human.bytes(client.bytesSent), Human.bytes(client.pendingBytes),
        ]
    }
}
