import LarderJSON
import LarderProtocol
import Testing

@Suite("Encoding of image.get")
struct ImageGetTests {
    private let url = "https://img.example.org/a.png"

    @Test("a full request and one with only a URL survive a round trip")
    func parameters() throws {
        let full = ImageGet.Parameters(
            ImageReference(url: url, cacheKey: "a"), policy: .networkFirst, maximumAgeSeconds: 60,
            expectedDigest: WireDigest(someDigest), delivery: .descriptor, leaseSeconds: 0, priority: .high,
            deadlineMilliseconds: 1500)
        #expect(try full.roundTripped() == full)
        let bare = ImageGet.Parameters(ImageReference(url: url))
        #expect(try bare.roundTripped() == bare)
        #expect(bare.text == #"{"url":"\#(url)"}"#)
        #expect(
            full.text
                == #"{"url":"\#(url)","cacheKey":"a","policy":"networkFirst","maximumAgeSeconds":60,"#
                + #""expectedDigest":"sha256:\#(someDigest)","as":"descriptor","leaseSeconds":0,"priority":"high","#
                + #""deadlineMilliseconds":1500}"#)
    }

    @Test("parameters may be positional, and null omits a parameter")
    func positional() throws {
        let read = try ImageGet.Parameters.read(
            #"["\#(url)","cacheOnly",60,"\#(someDigest)","a","path",10,"low",1]"#)
        #expect(
            read
                == ImageGet.Parameters(
                    ImageReference(url: url, cacheKey: "a"), policy: .cacheOnly, maximumAgeSeconds: 60,
                    expectedDigest: WireDigest(someDigest), leaseSeconds: 10, priority: .low, deadlineMilliseconds: 1))
        #expect(
            try ImageGet.Parameters.read(#"["\#(url)",null,null,null,null,"descriptor"]"#)
                == ImageGet.Parameters(ImageReference(url: url), delivery: .descriptor))
    }

    @Test(
        "the error for a missing or invalid parameter names that parameter",
        arguments: [
            (#"{}"#, "url"), (#"{"url":""}"#, "url"), (#"{"url":7}"#, "url"), (#"{"url":null}"#, "url"),
            (#"{"url":"u","policy":"cache"}"#, "policy"), (#"{"url":"u","policy":1}"#, "policy"),
            (#"{"url":"u","maximumAgeSeconds":-1}"#, "maximumAgeSeconds"),
            (#"{"url":"u","maximumAgeSeconds":1.5}"#, "maximumAgeSeconds"),
            (#"{"url":"u","maximumAgeSeconds":316224001}"#, "maximumAgeSeconds"),
            (#"{"url":"u","expectedDigest":"abc"}"#, "expectedDigest"),
            (#"{"url":"u","expectedDigest":"sha512:\#(someDigest)"}"#, "expectedDigest"),
            (#"{"url":"u","cacheKey":""}"#, "cacheKey"), (#"{"url":"u","as":"bytes"}"#, "as"),
            (#"{"url":"u","leaseSeconds":-1}"#, "leaseSeconds"),
            (#"{"url":"u","leaseSeconds":86401}"#, "leaseSeconds"), (#"{"url":"u","priority":"prefetch"}"#, "priority"),
            (#"{"url":"u","deadlineMilliseconds":0}"#, "deadlineMilliseconds"),
            (#"{"url":"u","deadlineMilliseconds":86400001}"#, "deadlineMilliseconds"),
        ])
    func refused(text: String, member: String) throws {
        let error = try #require(refusal { try ImageGet.Parameters.read(text) })
        #expect(error.code == .invalidParams)
        #expect(error.detail.hasPrefix("\"\(member)\""), "\(error.detail)")
    }

    @Test("overlong URLs and cache keys are rejected, and the error does not repeat them")
    func lengths() throws {
        func read(url: Int, key: Int) throws -> ImageGet.Parameters {
            let (url, key) = (String(repeating: "u", count: url), String(repeating: "k", count: key))
            return try ImageGet.Parameters.read(#"{"url":"\#(url)","cacheKey":"\#(key)"}"#)
        }
        #expect(refusal { try read(url: 8192, key: 512) } == nil)
        #expect(refusal { try read(url: 8193, key: 512) }?.detail.utf8.count ?? 0 < 100)
        #expect(refusal { try read(url: 8192, key: 513) }?.detail.utf8.count ?? 0 < 100)
        #expect(refusal { try read(url: 1, key: 513) }?.code == .invalidParams)
    }

    @Test("a result survives a round trip")
    func result() throws {
        var result = ImageGet.Result(
            path: "/c/b", image: .example, freshness: .revalidated, source: .joined, ageSeconds: 7, lease: 3)
        #expect(try result.roundTripped() == result)
        #expect(
            result.text
                == #"{"path":"/c/b","digest":"sha256:\#(someDigest)","mediaType":"image/png","width":640,"#
                + #""height":480,"bytes":18342,"freshness":"revalidated","source":"joined","ageSeconds":7,"lease":3}"#)
        result.hasDescriptor = true
        #expect(try result.roundTripped() == result)
    }

    @Test("unknown values from a newer agent are kept")
    func unknownValues() throws {
        let text =
            #"{"path":"/c/b","digest":"\#(someDigest)","mediaType":"image/jxl","width":1,"height":1,"bytes":1,"#
            + #""freshness":"tepid","source":"peer","ageSeconds":0,"lease":1,"more":true}"#
        let result = try ImageGet.Result(from: JSONValue(parsing: text))
        #expect(result.freshness.rawValue == "tepid")
        #expect(result.source.description == "peer")
        #expect(result.image.mediaType == "image/jxl")
    }

    @Test("a digest is read in either case, with or without `sha256:`, and written in lower case with `sha256:`")
    func digests() {
        for text in [someDigest, "sha256:" + someDigest, someDigest.uppercased()] {
            #expect(WireDigest(text)?.hex == someDigest)
            #expect(WireDigest(text)?.description == "sha256:" + someDigest)
        }
        for text in ["", "sha256:", someDigest + "0", String(someDigest.dropLast()), "SHA256:" + someDigest] {
            #expect(WireDigest(text) == nil)
        }
        #expect(WireDigest(String(someDigest.dropLast()) + "ä") == nil)
        #expect(WireDigest(String(someDigest.dropLast(2)) + "ä") == nil)
    }
}
