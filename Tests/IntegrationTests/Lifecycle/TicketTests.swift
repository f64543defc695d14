import Foundation
import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    /// Clients sell numbered tickets. The configuration contains the number of tickets left. A client that lowers this
    /// number from n to n - 1 has sold ticket n. `LARDER_TICKETS` sets the number of tickets at the start.
    @Suite("Tickets", .timeLimit(.minutes(30)))
    struct TicketTests {
        /// How a client ensures that no other client sells the same ticket.
        enum Guard: String, CaseIterable {
            case ifValue, ifRevision, increment
        }

        private struct Seller {
            let guardian: Guard
            var client: LineClient
            /// The ticket that the pending or next `config.set` sells; nil for increments, and while the number of
            /// tickets left is unknown.
            var ticket: Int?
            /// The revision and epoch of the last reply.
            var state: (revision: JSONValue, epoch: JSONValue)?
            var hasPendingSale = false
            var isDone = false

            var namespace: JSONValue { .string(guardian.rawValue.lowercased()) }
        }

        private static let settings = "{ namespaces: { ifvalue: {}, ifrevision: {}, increment: {} } }"
        private static let clients = 64

        private struct Sales {
            /// The tickets that clients with each guard have sold according to the replies, in the order of the
            /// replies.
            var sold: [Guard: [Int]] = [:]
            /// The number of sale requests for each guard that had no reply when the agent was killed.
            var lost: [Guard: Int] = [:]
            var conflicts = 0
            var count: Int { sold.values.reduce(0) { $0 + $1.count } }
        }

        @Test("64 clients with conditions or increments sell no ticket twice, although the agent is killed four times")
        func tickets() throws {
            let variable = ProcessInfo.processInfo.environment["LARDER_TICKETS"]
            let tickets = variable.flatMap { Int($0) } ?? 240
            let kills = 4
            try AgentHome.with(settings: Self.settings) { home in
                var sales = Sales()
                var agent = try home.start()
                for guardian in Guard.allCases {
                    try agent.call(
                        "config.set",
                        ["namespace": .string(guardian.rawValue.lowercased()), "path": "left", "value": .int(tickets)])
                }
                for round in 1...kills + 1 {
                    let goal = round > kills ? Int.max : tickets * Guard.allCases.count * round / (kills + 2)
                    try sell(agent, until: goal, &sales)
                    if round > kills { break }
                    agent = try home.start()
                }
                for guardian in Guard.allCases {
                    let sold = sales.sold[guardian] ?? []
                    #expect(Set(sold).count == sold.count, "\(guardian) sold a ticket twice")
                    #expect(sold.allSatisfy((1...tickets).contains))
                    let missing = tickets - sold.count
                    #expect(missing <= sales.lost[guardian] ?? 0, "\(guardian) lost a ticket without a lost reply")
                    let left = try agent.call(
                        "config.get", ["namespace": .string(guardian.rawValue.lowercased()), "path": "left"])
                    #expect(left["value"] == 0)
                }
                print("\(sales.count) tickets sold, \(sales.lost) replies lost, \(sales.conflicts) conflicts")
            }
        }

        /// Sells until the sale of `goal` tickets in total has been acknowledged, and then kills the agent. If the
        /// tickets are sold out before that, the agent keeps running.
        private func sell(_ agent: AgentProcess, until goal: Int, _ sales: inout Sales) throws {
            var sellers: [Seller] = []
            for index in 0..<Self.clients {
                var seller = Seller(
                    guardian: Guard.allCases[index % Guard.allCases.count], client: try agent.connect())
                try begin(&seller)
                sellers.append(seller)
            }
            let deadline = Deadline.after(.seconds(1000))
            while sales.count < goal, sellers.contains(where: { !$0.isDone }) {
                var polled = sellers.map { pollfd(fd: $0.client.descriptor, events: Int16(POLLIN), revents: 0) }
                poll(&polled, nfds_t(polled.count), 1000)
                for index in sellers.indices where polled[index].revents != 0 {
                    for line in sellers[index].client.availableLines() {
                        try take(JSONValue(parsing: line), of: &sellers[index], &sales)
                        try goOn(&sellers[index])
                    }
                }
                if deadline.hasPassed { throw HarnessError("the tickets are not sold out") }
            }
            if sellers.contains(where: { !$0.isDone }) {
                agent.kill()
                for index in sellers.indices {
                    // Handles the replies that the agent sent before it was killed.
                    for line in sellers[index].client.availableLines() {
                        try take(JSONValue(parsing: line), of: &sellers[index], &sales)
                    }
                    if sellers[index].hasPendingSale { sales.lost[sellers[index].guardian, default: 0] += 1 }
                }
            }
            for seller in sellers { seller.client.close() }
        }

        private func begin(_ seller: inout Seller) throws {
            if seller.guardian == .increment { return try goOn(&seller) }
            try seller.client.send(
                LineClient.text(id: 0, "config.get", ["namespace": seller.namespace, "path": "left"]))
        }

        /// Handles a reply: records the sale that the reply confirms, or else the revision and value that it contains.
        private func take(_ reply: JSONValue, of seller: inout Seller, _ sales: inout Sales) throws {
            let wasSale = seller.hasPendingSale
            seller.hasPendingSale = false
            if let result = reply["result"] {
                if wasSale {
                    let ticket = try require(seller.ticket ?? result["value"]?.int.map { $0 + 1 }, "ticket")
                    sales.sold[seller.guardian, default: []].append(ticket)
                    seller.ticket = seller.ticket.map { $0 - 1 }
                } else {
                    seller.ticket = try require(result["value"]?.int, "value")
                }
                seller.state = try (require(result["revision"], "revision"), require(result["epoch"], "epoch"))
                return
            }
            let data = try require(reply["error"]?["data"], "result or error")
            guard data["name"] == "conflict" else { throw HarnessError("unexpected reply \(reply)") }
            sales.conflicts += 1
            if seller.guardian == .increment {
                seller.isDone = true
                return
            }
            seller.state = try (require(data["revision"], "revision"), require(data["epoch"], "epoch"))
            // The error of a condition on the revision does not contain the value. `ticket` is then nil, so the seller
            // reads the value again.
            seller.ticket = data["value"]?.int
        }

        private func goOn(_ seller: inout Seller) throws {
            if seller.isDone { return }
            if seller.guardian == .increment {
                seller.hasPendingSale = true
                return try seller.client.send(
                    LineClient.text(
                        id: 1, "config.increment",
                        ["namespace": seller.namespace, "path": "left", "by": -1, "minimum": 0]))
            }
            guard let ticket = seller.ticket else { return try begin(&seller) }
            if ticket == 0 {
                seller.isDone = true
                return
            }
            var parameters: [(String, JSONValue)] = [
                ("namespace", seller.namespace), ("path", "left"), ("value", .int(ticket - 1)),
            ]
            if seller.guardian == .ifValue {
                parameters.append(("ifValue", .int(ticket)))
            } else if let state = seller.state {
                parameters += [("ifRevision", state.revision), ("epoch", state.epoch)]
            }
            seller.hasPendingSale = true
            try seller.client.send(LineClient.text(id: 1, "config.set", .object(parameters)))
        }
    }
}
