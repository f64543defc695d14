import Testing

@testable import LarderImages

@Suite("Image URLs and keys")
struct ImageAddressTests {
    @Test("different spellings of an origin have one normal form, and invalid URLs are rejected")
    func origins() {
        for (url, origin) in [
            ("https://A.example/b", "https://a.example"), ("HTTPS://a.example:443?x", "https://a.example"),
            ("http://a.example:443/", "http://a.example:443"), ("http://a.example:080/", "http://a.example"),
            ("http://a.example:#f", "http://a.example"), ("https://[::1]/", "https://[::1]"),
            ("https://[::1]:8443/", "https://[::1]:8443"),
        ] {
            #expect(ImageAddress(url)?.origin == origin, "\(url)")
        }
        for url in [
            "", "a", "//a.example/", "ftp://a.example/", "https:a.example", "https:///b", "https://u@a.example/",
            "https://u:p@a.example/", "https://a.example\\@b.example/", "https://a.example:x/",
            "https://a.example:99999/", "https://a.example/ b",
            "https://ä.example/", "https://:80/", "https://a.example/\n",
        ] {
            #expect(ImageAddress(url) == nil, "\(url)")
        }
    }

    @Test("the error for an invalid URL names the problem and does not contain the URL")
    func refusals() {
        for (url, word) in [
            ("", "absolute"), ("ftp://a.example/", "http"), ("https:a.example", "absolute"), ("https:///b", "no host"),
            ("https://u:p@a.example/", "password"), ("https://a.example/ b", "space"), ("https://ä.example/", "xn--"),
            ("https://a.example\n/", "space"), ("https://a.example:99999/", "port"), ("https://:80/", "no host"),
            ("https://a.example:x/", "port"), ("https://[::1]:x/", "port"), ("https://a.example\\b/", "characters"),
        ] {
            #expect(ImageAddress(url) == nil)
            let text = ImageAddress.refusal(of: url)
            #expect(text.contains(word) && !text.contains("a.example"), "\(url): \(text)")
        }
    }

    @Test("a URL in a message has no query and at most 202 characters")
    func display() {
        #expect(ImageAddress("https://a.example/b?c=d#e")?.display == "https://a.example/b?…")
        let long =
            ImageAddress("https://a.example/" + String(repeating: "b", count: 8000) + "/end.png?c")?.display ?? ""
        #expect(long.count == 202 && long.hasPrefix("https://a.example/bbb") && long.hasSuffix("b/end.png?…"))
    }

    @Test("a key contains the URL without its fragment and without ignored query parameters")
    func keys() throws {
        let origin = try ImageOrigin("https://a.example", ignoredQuery: ["sig", "X-Amz-*"])
        let lookup = ImageKeyResolver([origin])
        func text(_ url: String) -> String? { lookup.resolve(ImageRequest(url: url))?.keyText }
        for (url, expected) in [
            ("https://a.example", "https://a.example/"), ("https://A.example/B#c", "https://a.example/B"),
            ("https://a.example/?sig=1", "https://a.example/"), ("https://a.example/?", "https://a.example/?"),
            ("https://a.example/?a=1&sig=2&b&X-Amz-Date=3#x?y", "https://a.example/?a=1&b"),
            ("https://a.example/?signed=1", "https://a.example/?signed=1"),
            ("https://b.example/?sig=1", "https://b.example/?sig=1"),
            ("http://a.example/?sig=1", "http://a.example/?sig=1"),
        ] {
            #expect(text(url) == "\n" + expected, "\(url)")
        }
        #expect(throws: ImageError.self) { try ImageOrigin("https://a.example/path") }
        #expect(throws: ImageError.self) { try ImageOrigin("a.example") }
    }
}
