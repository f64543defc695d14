import LarderJSON
import LarderProtocol
import Testing

@Suite("Encoding of image.peek")
struct ImagePeekTests {
    private let time = Timestamp(milliseconds: 1_700_000_000_000)

    @Test("a request survives a round trip")
    func parameters() throws {
        let full = ImagePeek.Parameters(
            ImageReference(url: "u", cacheKey: "k"), policy: .cacheOnly, maximumAgeSeconds: 1, explains: true)
        #expect(try full.roundTripped() == full)
        #expect(try ImagePeek.Parameters.read(#"["u","cacheOnly",1,"k",true]"#) == full)
        let bare = ImagePeek.Parameters(ImageReference(url: "u"))
        #expect(try bare.roundTripped() == bare)
        #expect(bare.text == #"{"url":"u"}"#)
        #expect(refusal { try ImagePeek.Parameters.read(#"{"url":"u","explain":1}"#) }?.code == .invalidParams)
        #expect(refusal { try ImagePeek.Parameters.read(#"{"url":"u","policy":""}"#) }?.code == .invalidParams)
    }

    @Test("a result with and without an image survives a round trip")
    func result() throws {
        var image = ImagePeek.Cached(
            path: "/c/b", image: .example, freshness: .stale, ageSeconds: 9, isPinned: true, storedAt: time,
            lastUsedAt: time, expiresAt: time)
        let full = ImagePeek.Result(
            cached: image, decision: .stale, revalidates: true,
            rules: [ImagePeek.Rule(name: "policy", text: "default"), ImagePeek.Rule(name: "age", text: "9 s")])
        #expect(try full.roundTripped() == full)
        image.expiresAt = nil
        let plain = ImagePeek.Result(cached: image, decision: .revalidate, revalidates: false)
        #expect(try plain.roundTripped() == plain)
        #expect(plain.text.contains(#""expiresAt":null"#))
        let absent = ImagePeek.Result(cached: nil, decision: .notCached, revalidates: false, rules: [])
        #expect(try absent.roundTripped() == absent)
        #expect(absent.text == #"{"cached":false,"decision":"notCached","revalidates":false,"rules":[]}"#)
    }
}
