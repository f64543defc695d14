import LarderUpstream
import Testing

@testable import LarderImages

@Suite("Image keys")
struct ImageKeyTests {
    @Test("a key contains the URL without its fragment and without ignored query parameters")
    func keys() throws {
        let origin = try ImageOrigin("https://a.example", ignoredQuery: ["sig", "X-Amz-*"])
        let lookup = ImageKeyResolver([origin])
        func text(_ url: String) -> String? { (try? lookup.resolve(ImageRequest(url: url)))?.keyText }
        for (url, expected) in [
            ("https://a.example", "https://a.example/"), ("https://A.example/B#c", "https://a.example/B"),
            ("https://a.example/?sig=1", "https://a.example/"), ("https://a.example/?", "https://a.example/?"),
            ("https://a.example/?a=1&sig=2&b&X-Amz-Date=3#x?y", "https://a.example/?a=1&b"),
            ("https://a.example/b/../c/./d#f f", "https://a.example/c/d"),
            ("https://a.example/é[1]%20", "https://a.example/%C3%A9%5B1%5D%20"),
            ("https://a.example/?signed=1", "https://a.example/?signed=1"),
            ("https://b.example/?sig=1", "https://b.example/?sig=1"),
            ("http://a.example/?sig=1", "http://a.example/?sig=1"),
        ] {
            #expect(text(url) == "\n" + expected, "\(url)")
        }
        #expect(throws: UpstreamError.self) { try ImageOrigin("https://a.example/path") }
        #expect(throws: UpstreamError.self) { try ImageOrigin("a.example") }
    }
}
