@testable import LarderConfigStorage
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

    @Test("state of an earlier version, which names the source by location, adopts the identity of that source only")
    func adoption() throws {
        let remote = #"{"origin":"https://h/a","updatedAt":5,"version":"7","etag":"\"a\"","document":{}}"#
        let refused = #"{"version":"8","digest":"d","origin":"https://h/a"}"#
        let hold = #"{"revision":1,"since":2,"refused":\#(refused),"remote":null}"#
        var layers = try #require(Layers(JSONValue(parsing: #"{"remote":\#(remote),"hold":\#(hold)}"#)))
        let adopts1 = layers.adopt("sha256:1", at: "https://h/b")
        #expect(!adopts1)
        #expect(layers.validator(ofSource: "sha256:1") == nil)
        let adopts2 = layers.adopt("sha256:2", at: "https://h/a")
        #expect(adopts2)
        #expect(layers.validator(ofSource: "sha256:2")?.etag == "\"a\"")
        #expect(layers.remote?.seenVersions == SeenVersions(highest: UpstreamVersion("7"), source: "sha256:2"))
        #expect(layers.hold?.rejected?.source == "sha256:2")
        #expect(layers.remote?.origin == "https://h/a")
        let adopts3 = layers.adopt("sha256:3", at: "https://h/a")
        #expect(!adopts3)

        let written = JSONValue.building { layers.write(to: &$0) }
        let read = try #require(Layers(JSONValue(parsing: written.compactText)))
        #expect(read.remote?.source == "sha256:2")
        #expect(read.remote?.seenVersions == layers.remote?.seenVersions)
        #expect(read.hold?.rejected == layers.hold?.rejected)
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
