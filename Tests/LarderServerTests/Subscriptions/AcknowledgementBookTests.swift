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

    @Test("a summary lists the newest rejections, at most 64")
    func bound() {
        let book = AcknowledgementBook()
        for client in 1...100 { book.note(entry(5, false, at: client), by: client, of: "a") }
        #expect(book.summary(of: "a").refused.map(\.client) == (37...100).reversed())
    }
}
