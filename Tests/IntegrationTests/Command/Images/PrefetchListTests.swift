import LarderJSON
import LarderClient
import LarderProtocol
import Testing

@testable import LarderCommand

@Suite("List of a prefetch")
struct PrefetchListTests {
    private func urls(_ text: String) throws -> [String] {
        try PrefetchList.parse(Array(text.utf8), name: "list").items.map(\.image.url)
    }

    @Test("a list has one URL per line; comments, empty lines and white space are skipped")
    func lines() throws {
        #expect(
            try urls("https://a/1\r\n\r\n# one of two\n  http://a/2#x \nHTTPS://a/3")
                == ["https://a/1", "http://a/2#x", "HTTPS://a/3"])
        #expect(try urls("https://a/1\nhttps://a/2\nhttps://a/1\n") == ["https://a/1", "https://a/2"])
    }

    @Test("URLs with different bytes are different images")
    func spellings() throws {
        #expect(try urls("https://a/caf\u{e9}\nhttps://a/cafe\u{301}\nhttps://a/caf\u{e9}").count == 2)
    }

    @Test("a list can be a JSON array of URLs and objects")
    func array() throws {
        let digest = String(repeating: "ab", count: 32)
        let text = #"""
             [ "https://a/1", {"url": "https://a/2?sig=1", "cacheKey": "2", "expectedDigest": "sha256:\#(digest)"} ]
            """#
        let items = try PrefetchList.parse(Array(text.utf8), name: "list").items
        #expect(items.map(\.image.url) == ["https://a/1", "https://a/2?sig=1"])
        #expect(items[1].image.cacheKey == "2")
        #expect(items[1].expectedDigest == WireDigest(digest))
    }

    @Test(
        "an invalid line or element is rejected with its number and the reason, but not its text",
        arguments: [
            ("https://a/1\nsecret\n", 2, "not an http or https URL"), ("ftp://secret/", 1, "not an http or https URL"),
            ("https://a/1 secret", 1, "a space or a control character"), (#"["https://a/1", 7]"#, 2, "must be a URL"),
            (#"[{"uri": "secret"}]"#, 1, "did you mean \"url\"?"), (#"["/secret"]"#, 1, "not an http or https URL"),
            ("\u{0}", 1, "not an http or https URL"), (#"{"urls": ["secret"]}"#, 1, "not an http or https URL"),
            (#"[{"url": "https://a/", "expectedDigest": "secret"}]"#, 1, "\"expectedDigest\""),
            (#"["https://a/1", {"url": "https://a/2", "cacheKey": ""}]"#, 2, "\"cacheKey\" has 0 bytes"),
        ])
    func rejected(text: String, number: Int, reason: String) throws {
        let list = try PrefetchList.parse(Array(text.utf8), name: "list")
        #expect(list.rejections.map(\.number) == [number])
        let detail = list.rejections.first?.reason ?? ""
        #expect(detail.contains(reason), "\(detail)")
        #expect(!detail.contains("secret"))
    }

    @Test(
        "a list without entries or with malformed JSON is a usage error",
        arguments: ["# nothing\n", "[]", "", "[", "[1"])
    func invalidList(text: String) {
        let failure = #expect(throws: Failure.self) { try urls(text) }
        #expect(failure?.status == .usage)
        #expect(failure?.message.hasPrefix("list ") == true, "\(failure?.message ?? "")")
    }

    @Test(
        "a URL without a host or with a user name is rejected",
        arguments: [
            ("http://", "the URL has no host"), ("https:///1.png", "the URL has no host"),
            ("http://:80/1.png", "the URL has no host"), ("http://?a", "the URL has no host"),
            ("https://user@a/1.png", "the URL contains a user name or a password"),
            ("https://user:secret@a/1.png", "the URL contains a user name or a password"),
        ])
    func authority(url: String, reason: String) throws {
        let lines = try PrefetchList.parse(Array((url + "\nhttps://a/@1").utf8), name: "list")
        #expect(lines.rejections == [.init(number: 1, reason: reason)])
        #expect(lines.items.map(\.image.url) == ["https://a/@1"])
        let elements = try PrefetchList.parse(Array("[\"\(url)\", {\"url\": \"\(url)\"}]".utf8), name: "list")
        #expect(elements.rejections == [.init(number: 1, reason: reason), .init(number: 2, reason: reason)])
    }

    @Test("if lines or elements are rejected, the other images in the list are kept")
    func others() throws {
        let long = "https://a/" + String(repeating: "x", count: 8183)
        let text = Array("# two\nhttps://a/1\n\(long)\n".utf8) + [0xFF, 0x0A] + Array("no\nhttps://a/2".utf8)
        let lines = try PrefetchList.parse(text, name: "list")
        #expect(lines.unit == .line && lines.items.map(\.image.url) == ["https://a/1", "https://a/2"])
        #expect(
            lines.rejections == [
                .init(number: 3, reason: "the URL has 8193 bytes; at most 8192 are allowed"),
                .init(number: 4, reason: "not UTF-8"), .init(number: 5, reason: "not an http or https URL"),
            ])
        let array = #"["\#(long)", "https://a/1", {"url": "\#(long)", "cacheKey": "1"}, "no"]"#
        let elements = try PrefetchList.parse(Array(array.utf8), name: "list")
        #expect(elements.unit == .element && elements.items.map(\.image.url) == ["https://a/1"])
        #expect(elements.rejections.map(\.number) == [1, 3, 4])
        #expect(try PrefetchList.parse(Array(long.utf8), name: "list").items.isEmpty)
        #expect(try urls(String(long.dropLast())) == [String(long.dropLast())])
    }

    @Test("a list is divided into chunks within the limits of a request, in the order of the list")
    func chunks() throws {
        let items = (0..<25).map { ImagePrefetch.Item(ImageReference(url: "https://a/\($0)")) }
        let byCount = PrefetchList.chunks(items, maxItems: 10, maxBytes: 1 << 20)
        #expect(byCount.map(\.count) == [10, 10, 5])
        #expect(byCount.flatMap { $0 } == items)
        let long = (0..<300).map { index in
            ImagePrefetch.Item(
                ImageReference(url: "https://a/\(index)?" + String(repeating: "\"", count: 7000), cacheKey: "\(index)"))
        }
        let bySize = PrefetchList.chunks(long, maxItems: 10_000, maxBytes: 1 << 20)
        #expect(bySize.flatMap { $0 } == long)
        #expect(bySize.count > 1)
        for chunk in bySize {
            let parameters = ImagePrefetch.Parameters(Array(chunk))
            #expect(JSONValue.building { parameters.write(to: &$0) }.compactText.utf8.count <= 1 << 20)
        }
        // An image that exceeds the limit gets a separate chunk, which the agent rejects.
        #expect(PrefetchList.chunks(long, maxItems: 10, maxBytes: 1).count == 300)
    }
}
