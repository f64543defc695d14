import LarderConfigStorage
import LarderHTTPSemantics
import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Layer members added after version 0.1")
struct LayerFormatTests {
    private static let remote = #"""
        {"origin":"https://h/a.json","updatedAt":5,"seenVersions":{"highest":"15","highestSeries":"main","source":"https://h/a.json"},\#
        "removals":{"o":null},"document":{"o":{"b":2}}}
        """#

    @Test("removals and seen versions of a remote document are decoded, and encoded to the same bytes")
    func remoteLayer() throws {
        let remote = try #require(RemoteDocument(JSONValue(parsing: Self.remote)))
        #expect(remote.removals == ["o": .null])
        #expect(
            remote.seenVersions
                == SeenVersions(highest: UpstreamVersion("15", series: "main"), source: "https://h/a.json"))
        #expect(JSONValue.building { remote.write(to: &$0) }.compactText == Self.remote)
    }

    @Test("the URL of a validator is kept, and the validator of an earlier version has none, so that it is not sent")
    func validatorURL() throws {
        let start = #"{"origin":"https://h/a.json","updatedAt":5,"etag":"\"a\"","#
        let text = start + #""validatorURL":"https://h/b.json?v=1","document":{}}"#
        let remote = try #require(RemoteDocument(JSONValue(parsing: text)))
        #expect(remote.validator?.isIssued(by: "https://h/b.json?v=1") == true)
        #expect(JSONValue.building { remote.write(to: &$0) }.compactText == text)
        let earlier = try #require(RemoteDocument(JSONValue(parsing: start + #""document":{}}"#)))
        #expect(earlier.validator?.etag == "\"a\"")
        #expect(earlier.validator?.url == nil)
    }

    @Test("removals of a file layer are decoded, and encoded to the same bytes")
    func fileLayer() throws {
        let text = #"{"updatedAt":5,"removals":{"o":null},"document":{"o":{"b":2}}}"#
        let files = try #require(FileDocument(JSONValue(parsing: text)))
        #expect(JSONValue.building { files.write(to: &$0) }.compactText == text)
        let layers = Layers(host: files)
        #expect(layers.resolved() == ["o": ["b": 2]])
    }

    @Test(
        "the version of a remote document that Larder 0.1 stored counts as seen",
        arguments: [
            (#"{"origin":"https://h/a.json","updatedAt":5,"version":"7","document":{}}"#, "7", "https://h/a.json"),
            (#"{"origin":"push","updatedAt":5,"version":"7","document":{}}"#, "7", nil),
            (#"{"origin":"https://h/a.json","updatedAt":5,"document":{}}"#, nil, nil),
        ] as [(String, String?, String?)])
    func earlierVersion(text: String, highest: String?, source: String?) throws {
        let remote = try #require(RemoteDocument(JSONValue(parsing: text)))
        #expect(remote.seenVersions == SeenVersions(highest: highest.map(UpstreamVersion.init), source: source))
        #expect(JSONValue.building { remote.write(to: &$0) }.compactText == text)
    }
}
