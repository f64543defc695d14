import Testing

@testable import LarderUpstream

@Suite("URLs of requests")
struct FetchURLTests {
    @Test("different spellings of an origin have one normal form, and invalid URLs are rejected")
    func origins() {
        for (url, origin) in [
            ("https://A.example/b", "https://a.example"), ("HTTPS://a.example:443?x", "https://a.example"),
            ("http://a.example:443/", "http://a.example:443"), ("http://a.example:080/", "http://a.example"),
            ("http://a.example:#f", "http://a.example"), ("https://[::1]/", "https://[::1]"),
            ("https://[::1]:8443/", "https://[::1]:8443"), ("http://[FE80::A]", "http://[fe80::a]"),
        ] {
            #expect((try? FetchURL(parsing: url))?.origin == origin, "\(url)")
        }
        for url in [
            "", "a", "//a.example/", "ftp://a.example/", "https:a.example", "https:///b", "https://u@a.example/",
            "https://u:p@a.example/", "https://a.example\\@b.example/", "https://a.example:x/",
            "https://a.example:99999/", "https://a.example:0/", "https://a.example:18446744073709551697/",
            "https://a.example/ b", "https://ä.example/", "https://:80/", "https://a.example/\n",
            "https://a.example/\u{7F}", "http://[google.com]/", "http://[::1]a/", "http://a%2eb/", "http://127.1/",
            "http:\u{1A}//a.example/",
        ] {
            #expect(throws: InvalidURL.self, "\(url)") { try FetchURL(parsing: url) }
        }
    }

    @Test("the error for an invalid URL names the problem and does not contain the URL")
    func reasons() {
        for (url, word) in [
            ("", "absolute"), ("ftp://a.example/", "http"), ("https:a.example", "absolute"), ("https:///b", "no host"),
            ("https://u:p@a.example/", "password"), ("https://a.example/ b", "space"), ("https://ä.example/", "xn--"),
            ("https://a.example\n/", "space"), ("https://a.example:99999/", "port"), ("https://:80/", "no host"),
            ("https://a.example:x/", "port"), ("https://[::1]:x/", "port"), ("https://a.example\\b/", "characters"),
            ("https://[a.example]/", "IPv6"), ("https://a..example/", "empty part"), ("https://0x7f.1/", "number"),
        ] {
            let error = #expect(throws: InvalidURL.self) { try FetchURL(parsing: url) }
            let reason = error?.reason ?? ""
            #expect(reason.contains(word) && !reason.contains("a.example"), "\(url): \(reason)")
        }
    }

    @Test(
        "the target is the original text, in which only bytes that RFC 3986 forbids are percent-encoded",
        arguments: [
            ("", "/"), ("?x", "/?x"), ("?", "/?"), ("/img/%B1.jpg", "/img/%B1.jpg"), ("/%e4%C3%a4", "/%e4%C3%a4"),
            ("/a[1]%20b.png", "/a%5B1%5D%20b.png"), ("/?sig=ab%2Bc&t=50%", "/?sig=ab%2Bc&t=50%25"),
            ("/%C3%A9/é.png", "/%C3%A9/%C3%A9.png"), ("/%zz%4", "/%25zz%254"), ("/%%41", "/%25%41"),
            ("/\"<>\\^`{|}", "/%22%3C%3E%5C%5E%60%7B%7C%7D"),
            ("/-._~!$&'()*+,;=:@/%?/?:@", "/-._~!$&'()*+,;=:@/%25?/?:@"),
            ("/a#f f[%", "/a"), ("#/?", "/"), ("/#\u{301}", "/"), ("//a//b", "//a//b"), ("/?a/../b", "/?a/../b"),
            ("/a/./b/../c", "/a/c"), ("/..", "/"), ("/../a/..", "/"), ("/a/.", "/a/"), ("/a/b/..?/..", "/a/?/.."),
            ("/a//../b", "/a/b"), ("/.a/..b/...", "/.a/..b/..."), ("/%2e%2E/a", "/%2e%2E/a"),
            ("/é/../\u{301}", "/%CC%81"),
            ("/\u{301}é", "/%CC%81%C3%A9"), ("/\u{FFFD}", "/%EF%BF%BD"),
        ])
    func targets(_ text: String, _ target: String) throws {
        let url = try FetchURL(parsing: "http://a.example" + text)
        #expect(url.target == target)
        #expect(try FetchURL(parsing: url.text) == url)
    }

    @Test(
        "a redirect target is resolved against the URL and keeps its bytes",
        arguments: [
            ("/é%E4", "http://a.example/%C3%A9%E4"), ("c", "http://a.example/x/c"),
            ("../c?d#e", "http://a.example/c?d"),
            ("?z", "http://a.example/x/y?z"), ("#f \u{FFFD}", "http://a.example/x/y?q/r"),
            ("//B.example:80/c", "http://b.example/c"), ("HTTPS://b.example:444", "https://b.example:444/"),
            (".", "http://a.example/x/"), ("./a:b", "http://a.example/x/a:b"),
            ("\\\\b.example", "http://a.example/x/%5C%5Cb.example"),
        ])
    func redirects(_ location: String, _ target: String) throws {
        #expect(try FetchURL("http://A.example/x/y?q/r").redirected(to: location).text == target)
    }

    @Test(
        "a redirect to a URL that cannot be requested unchanged is an error",
        arguments: [
            "/caf\u{FFFD}", "http://[google.com]/", "http://b.example:18446744073709551697/", "http://b.example:65536/",
            "/a b", "/a\u{7F}", "\u{1}", "a:b", "ftp://b.example/", "http:c", "http:///c", "//u@b.example/",
            "http://127.1/",
        ])
    func invalidRedirects(_ location: String) throws {
        let url = try FetchURL("http://a.example/x/y")
        let error = #expect(throws: UpstreamError.self) { try url.redirected(to: location) }
        #expect(error?.code == .invalidRedirect)
    }

    @Test("a URL in a message has no query and at most 202 characters")
    func display() throws {
        #expect(try FetchURL("https://a.example/b?c=d#e").display == "https://a.example/b?…")
        let long = try FetchURL("https://a.example/" + String(repeating: "b", count: 8000) + "/end.png?c").display
        #expect(long.count == 202 && long.hasPrefix("https://a.example/bbb") && long.hasSuffix("b/end.png?…"))
    }
}
