import LarderProtocol
import Testing

@testable import LarderServer

@Suite("Acknowledgements of snapshots")
struct AcknowledgementBookTests {
    private func entry(_ revision: Int, _ accepted: Bool, at: Int = 0) -> AcknowledgementBook.Entry {
        AcknowledgementBook.Entry(
            revision: revision, accepted: accepted, reason: accepted ? nil : "no", at: Timestamp(milliseconds: at),
            peer: PeerCredentials(descriptor: -1))
    }

    @Test("the last acknowledgement of each client in each namespace counts until the client disconnects")
    func lastAcknowledgement() {
        let book = AcknowledgementBook()
        for client in 1...3 { book.note(entry(5, true), by: client, of: "a") }
        book.note(entry(6, true), by: 1, of: "a")
        book.note(entry(6, false), by: 2, of: "a")
        book.note(entry(9, true), by: 2, of: "b")
        #expect(book.summary(of: "a").accepted == [5: 1, 6: 1])
        #expect(book.summary(of: "a").refused.map(\.client) == [2])
        #expect(book.latest(by: 2).map(\.namespace) == ["a", "b"])
        book.forget(2)
        #expect(book.summary(of: "a").refused.isEmpty)
        #expect(book.summary(of: "b") == ConfigStatus.Acknowledgements())
        #expect(book.latest(by: 2).isEmpty)
    }

    @Test("a summary counts all rejections, and lists the 16 newest")
    func manyRejections() {
        let book = AcknowledgementBook()
        for client in 1...100 { book.note(entry(5, false, at: client), by: client, of: "a") }
        #expect(book.summary(of: "a").refusals == 100)
        #expect(book.summary(of: "a").refused.map(\.client) == (85...100).reversed())
    }

    @Test("a summary has the 16 newest revisions that clients have accepted")
    func manyRevisions() {
        let book = AcknowledgementBook()
        for client in 1...100 { book.note(entry(client, true), by: client, of: "a") }
        #expect(Set(book.summary(of: "a").accepted.keys) == Set(85...100))
    }

    @Test("a connection keeps the acknowledgements of the 16 namespaces that it acknowledged last")
    func manyNamespaces() {
        let book = AcknowledgementBook()
        let names = (10..<27).map { "n\($0)" }
        book.note(entry(5, true), by: 2, of: names[0])
        for name in names.prefix(16) { book.note(entry(5, true), by: 1, of: name) }
        book.note(entry(6, true), by: 1, of: names[0])
        book.note(entry(5, true), by: 1, of: names[16])
        #expect(book.latest(by: 1).map(\.namespace) == names.filter { $0 != names[1] })
        #expect(book.summary(of: names[0]).accepted == [5: 1, 6: 1])
        #expect(book.summary(of: names[1]) == ConfigStatus.Acknowledgements())
        book.forget(1)
        #expect(names.allSatisfy { book.summary(of: $0).accepted == ($0 == names[0] ? [5: 1] : [:]) })
    }
}
