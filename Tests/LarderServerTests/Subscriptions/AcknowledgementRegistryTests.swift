import LarderJSON
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("Acknowledgements of snapshots")
struct AcknowledgementRegistryTests {
    private let peer = PeerCredentials(descriptor: -1)

    private func entry(
        _ revision: Int, _ accepted: Bool, at: Int = 0, of namespace: String
    ) -> AgentClients.Acknowledgement {
        AgentClients.Acknowledgement(
            namespace: namespace, revision: revision, accepted: accepted, reason: accepted ? nil : "no",
            at: Timestamp(milliseconds: at))
    }

    @Test("the last acknowledgement of each client in each namespace counts until the client disconnects")
    func lastAcknowledgement() {
        let registry = AcknowledgementRegistry()
        for client in 1...3 { registry.note(entry(5, true, of: "a"), by: client, peer) }
        registry.note(entry(6, true, of: "a"), by: 1, peer)
        registry.note(entry(6, false, of: "a"), by: 2, peer)
        registry.note(entry(9, true, of: "b"), by: 2, peer)
        #expect(registry.summary(of: "a").accepted == [5: 1, 6: 1])
        #expect(registry.summary(of: "a").rejected.map(\.client) == [2])
        #expect(registry.latest(by: 2).map(\.namespace) == ["a", "b"])
        registry.forget(2)
        #expect(registry.summary(of: "a").rejected.isEmpty)
        #expect(registry.summary(of: "b") == ConfigStatus.Acknowledgements())
        #expect(registry.latest(by: 2).isEmpty)
    }

    @Test("a summary counts all rejections, and lists the 16 newest")
    func manyRejections() {
        let registry = AcknowledgementRegistry()
        for client in 1...100 { registry.note(entry(5, false, at: client, of: "a"), by: client, peer) }
        #expect(registry.summary(of: "a").rejections == 100)
        #expect(registry.summary(of: "a").rejected.map(\.client) == (85...100).reversed())
    }

    @Test("a summary has the 16 newest revisions that clients have accepted")
    func manyRevisions() {
        let registry = AcknowledgementRegistry()
        for client in 1...100 { registry.note(entry(client, true, of: "a"), by: client, peer) }
        #expect(Set(registry.summary(of: "a").accepted.keys) == Set(85...100))
    }

    @Test("clients are listed by name, those that rejected a revision first, with reasons only on request")
    func clients() {
        let registry = AcknowledgementRegistry()
        func peer(_ name: String) -> PeerCredentials {
            var peer = self.peer
            peer.knownCommand = name
            return peer
        }
        for (id, name) in ["b", "a", "a", "c"].enumerated() {
            registry.note(entry(5, name != "c", of: "n"), by: id, peer(name))
        }
        let clients = registry.clients(of: "n", withReasons: false)
        #expect(clients.map(\.client.name.text) == ["c", "a", "b"])
        #expect(clients.map(\.count) == [1, 2, 1])
        #expect(clients.map(\.client.isAccepted) == [false, true, true])
        #expect(clients.first?.client.reason == nil)
        #expect(registry.clients(of: "n", withReasons: true).first?.client.reason?.text == "no")
        #expect(registry.clients(of: "other", withReasons: true).isEmpty)
    }

    @Test("a connection keeps the acknowledgements of the 16 namespaces that it acknowledged last")
    func manyNamespaces() {
        let registry = AcknowledgementRegistry()
        let names = (10..<27).map { "n\($0)" }
        registry.note(entry(5, true, of: names[0]), by: 2, peer)
        for name in names.prefix(16) { registry.note(entry(5, true, of: name), by: 1, peer) }
        registry.note(entry(6, true, of: names[0]), by: 1, peer)
        registry.note(entry(5, true, of: names[16]), by: 1, peer)
        #expect(registry.latest(by: 1).map(\.namespace) == names.filter { $0 != names[1] })
        #expect(registry.summary(of: names[0]).accepted == [5: 1, 6: 1])
        #expect(registry.summary(of: names[1]) == ConfigStatus.Acknowledgements())
        registry.forget(1)
        #expect(names.allSatisfy { registry.summary(of: $0).accepted == ($0 == names[0] ? [5: 1] : [:]) })
    }
}
