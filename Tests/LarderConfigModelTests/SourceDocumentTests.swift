import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Documents of a source")
struct SourceDocumentTests {
    private func document(_ version: String?, value: JSONValue = ["v": 1]) -> SourceDocument {
        SourceDocument(value: value, version: version.map(UpstreamVersion.init))
    }

    @Test("versions show which of two documents is older")
    func older() {
        #expect(document("1").isOlder(than: document("2")) == true)
        #expect(document("2").isOlder(than: document("1")) == false)
        #expect(document("2").isOlder(than: document("2", value: ["v": 2])) == false)
    }

    @Test("without comparable versions, only the same document in memory is known not to be older")
    func unknown() {
        let first = document(nil)
        #expect(first.isOlder(than: first) == false)
        #expect(first.isOlder(than: document(nil, value: ["v": 2])) == nil)
        #expect(document("a", value: ["v": 2]).isOlder(than: document("b")) == nil)
        let other = SourceDocument(value: ["v": 3], version: UpstreamVersion("9", series: "other"))
        let mine = SourceDocument(value: ["v": 4], version: UpstreamVersion("1", series: "mine"))
        #expect(mine.isOlder(than: other) == nil)
    }
}
