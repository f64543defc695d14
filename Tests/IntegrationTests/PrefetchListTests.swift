import JSON
import LarderClient
import LarderWire
import Testing

@testable import LarderCommand

@Suite("The list of a prefetch")
struct PrefetchListTests {
    private func urls(_ text: String) throws -> [String] {
        try PrefetchList.parse(Array(text.utf8), name: "list").items.map(\.image.url)
    }

    @Test("one URL a line; comments, empty lines, and what other systems put around lines")
    func lines() throws {
        #expect(
            try urls("\u{FEFF}https://a/1\r\n\r\n# one of two\n  http://a/2#x \nHTTPS://a/3")
                == ["https://a/1", "http://a/2#x", "HTTPS://a/3"])
        #expect(try urls("https://a/1\nhttps://a/2\nhttps://a/1\n") == ["https://a/1", "https://a/2"])
    }

    @Test("a JSON array of URLs and objects")
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
        "what is no image is named by its line or its place, and not repeated",
        arguments: [
            ("https://a/1\nsecret\n", "line 2 of list"), ("ftp://secret/", "line 1 of list"),
            ("https://a/1 secret", "line 1 of list"), (#"["https://a/1", 7]"#, "element 2 of list"),
            (#"[{"uri": "secret"}]"#, "element 1 of list"), (#"["/secret"]"#, "element 1 of list"),
            ("[", "begins like a JSON array"), ("# nothing\n", "names no image"), ("[]", "names no image"),
            ("\u{0}", "line 1 of list"), (#"{"urls": ["secret"]}"#, "line 1 of list"),
        ])
    func noImages(text: String, reason: String) {
        let failure = #expect(throws: Failure.self) { try urls(text) }
        #expect(failure?.status == .usage)
        #expect(failure?.message.contains(reason) == true, "\(failure?.message ?? "")")
        #expect(failure?.message.contains("secret") == false)
    }

    @Test("a URL that no request may have is a failure of its line or element, and the others stay")
    func tooLong() throws {
        let long = "https://a/" + String(repeating: "x", count: 8183)
        let lines = try PrefetchList.parse(
            Array("# two\nhttps://a/1\n\(long)\n\(long)\nhttps://a/2".utf8), name: "list")
        #expect(lines.items.map(\.image.url) == ["https://a/1", "https://a/2"])
        #expect(lines.place == .line && lines.failures.map(\.line) == [3, 4])
        #expect(lines.failures[0].url == nil && lines.failures[0].error.code == .invalidParams)
        #expect(lines.failures[0].error.detail.contains("8193 bytes"))
        let array = #"["\#(long)", "https://a/1", {"url": "\#(long)", "cacheKey": "1"}]"#
        let elements = try PrefetchList.parse(Array(array.utf8), name: "list")
        #expect(elements.items.map(\.image.url) == ["https://a/1"])
        #expect(elements.place == .element && elements.failures.map(\.line) == [1, 3])
        #expect(try PrefetchList.parse(Array(long.utf8), name: "list").items.isEmpty)
        #expect(try urls(String(long.dropLast())) == [String(long.dropLast())])
    }

    @Test("portions hold what one request may, and together the whole list in its order")
    func portions() throws {
        let items = (0..<25).map { ImagePrefetch.Item(ImageReference(url: "https://a/\($0)")) }
        let byCount = PrefetchList.portions(items, mostItems: 10, mostBytes: 1 << 20)
        #expect(byCount.map(\.count) == [10, 10, 5])
        #expect(byCount.flatMap { $0 } == items)
        let long = (0..<300).map { index in
            ImagePrefetch.Item(
                ImageReference(url: "https://a/\(index)?" + String(repeating: "\"", count: 7000), cacheKey: "\(index)"))
        }
        let bySize = PrefetchList.portions(long, mostItems: 10_000, mostBytes: 1 << 20)
        #expect(bySize.flatMap { $0 } == long)
        #expect(bySize.count > 1)
        for portion in bySize {
            let parameters = ImagePrefetch.Parameters(.items(Array(portion)))
            #expect(JSONValue.building { parameters.write(to: &$0) }.compactText.utf8.count <= 1 << 20)
        }
        // One that is longer than a request may be is the agent's to refuse.
        #expect(PrefetchList.portions(long, mostItems: 10, mostBytes: 1).count == 300)
    }
}
