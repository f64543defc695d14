import LarderJSON
import LarderProtocol
import Testing

@Suite("Encoding of methods on cached images")
struct CachedImageTests {
    private let time = Timestamp(milliseconds: 1_700_000_000_000)

    @Test("a reference is a URL with an optional cache key")
    func references() throws {
        for reference in [ImageReference(url: "u"), ImageReference(url: "u", cacheKey: "k")] {
            #expect(try reference.roundTripped() == reference)
        }
        #expect(try ImageReference.read(#"["u","k"]"#) == ImageReference(url: "u", cacheKey: "k"))
        for text in [#"{}"#, #"[]"#, #"{"url":""}"#, #"{"url":"u","cacheKey":""}"#, #"{"url":"u","cacheKey":7}"#] {
            #expect(refusal { try ImageReference.read(text) }?.code == .invalidParams, "\(text)")
        }
    }

    @Test("the results of pin, unpin, release and remove survive a round trip")
    func results() throws {
        let pin = ImagePin.Result(image: .example)
        #expect(try pin.roundTripped() == pin)
        #expect(pin.text.hasPrefix(#"{"pinned":true,"digest":"sha256:"#))
        for flag in [true, false] {
            let unpin = ImageUnpin.Result(wasPinned: flag)
            #expect(try unpin.roundTripped() == unpin)
            let release = ImageRelease.Result(released: flag)
            #expect(try release.roundTripped() == release)
            let remove = ImageRemove.Result(removed: flag, images: flag ? 2 : 0, bytes: flag ? 7 : 0)
            #expect(try remove.roundTripped() == remove)
        }
    }

    @Test("image.remove takes either a URL or a prefix")
    func remove() throws {
        typealias Parameters = ImageRemove.Parameters
        let image = ImageReference(url: "https://a/1.png", cacheKey: "k")
        for parameters in [
            Parameters(.image(image)), Parameters(.image(image), isDryRun: true), Parameters(.prefix("https://a")),
            Parameters(.prefix("https://a/b"), isDryRun: true),
        ] { #expect(try parameters.roundTripped() == parameters) }
        #expect(Parameters(.prefix("https://a"), isDryRun: true).text == #"{"prefix":"https://a","dryRun":true}"#)
        #expect(try Parameters.read(#"["https://a/1.png","k"]"#) == Parameters(.image(image)))
        for text in [
            "{}", #"{"prefix":""}"#, #"{"prefix":1}"#, #"{"url":"https://a","prefix":"https://a"}"#,
            #"{"cacheKey":"k","prefix":"https://a"}"#, #"{"prefix":"https://a","dryRun":1}"#,
        ] { #expect(refusal { try Parameters.read(text) }?.code == .invalidParams, "\(text)") }
        // Older agents do not send `images`, the number of removed images.
        let old = try ImageRemove.Result(from: JSONValue(parsing: #"{"removed":true,"bytes":5}"#))
        #expect(old == ImageRemove.Result(removed: true, images: 1, bytes: 5))
    }

    @Test("image.put encodes bytes in base64", arguments: 0...9)
    func put(_ count: Int) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 97 &+ 250) }
        let parameters = ImagePut.Parameters(
            ImageReference(url: "https://a/1.png", cacheKey: "k"), .inline(bytes),
            expectedDigest: WireDigest(someDigest),
            lifetimeSeconds: 5)
        #expect(try parameters.roundTripped() == parameters)
        let result = ImagePut.Result(image: .example)
        #expect(try result.roundTripped() == result)
    }

    @Test(
        "image.put rejects invalid base64",
        arguments: ["A", "AA", "AAA", "A===", "AA=A", "====", "AAA-", "AA A", "AAAA\\n", "AAAAA==="])
    func notBase64(_ text: String) {
        let params = "{\"url\":\"https://a\",\"data\":\"\(text)\"}"
        #expect(refusal { try ImagePut.Parameters.read(params) }?.code == .invalidParams)
    }

    @Test("a lease is a non-negative integer")
    func lease() throws {
        let release = ImageRelease.Parameters(lease: 7)
        #expect(try release.roundTripped() == release)
        #expect(try ImageRelease.Parameters.read("[7]") == release)
        for text in [#"{}"#, #"{"lease":"7"}"#, #"{"lease":-1}"#, #"{"lease":1.5}"#, #"{"lease":null}"#] {
            #expect(refusal { try ImageRelease.Parameters.read(text) }?.code == .invalidParams, "\(text)")
        }
    }

    @Test("image.clear keeps pinned images by default")
    func clear() throws {
        for flag in [true, false] {
            let parameters = ImageClear.Parameters(includesPinned: flag)
            #expect(try parameters.roundTripped() == parameters)
        }
        #expect(try ImageClear.Parameters.read("[]") == ImageClear.Parameters(includesPinned: false))
        #expect(refusal { try ImageClear.Parameters.read(#"{"includingPinned":"yes"}"#) }?.code == .invalidParams)
        let result = ImageClear.Result(removed: 3, bytes: 7)
        #expect(try result.roundTripped() == result)
    }

    @Test("the parameters and pages of image.list survive a round trip")
    func list() throws {
        for parameters in [ImageList.Parameters(), ImageList.Parameters(after: "x", limit: 1000, prefix: "https://a")] {
            #expect(try parameters.roundTripped() == parameters)
        }
        #expect(ImageList.Parameters().text == "{}")
        for text in [#"{"limit":0}"#, #"{"limit":1001}"#, #"{"after":7}"#] {
            #expect(refusal { try ImageList.Parameters.read(text) }?.code == .invalidParams, "\(text)")
        }
        let entry = ImageList.Entry(
            reference: ImageReference(url: "u", cacheKey: "k"), image: .example, isPinned: true, storedAt: time,
            lastUsedAt: time, expiresAt: time, freshness: .fresh)
        var bare = entry
        bare.reference.cacheKey = nil
        bare.expiresAt = nil
        for page in [
            ImageList.Result(images: [entry, bare], next: "x"), ImageList.Result(images: [], next: nil),
        ] {
            #expect(try page.roundTripped() == page)
        }
        #expect(ImageList.Result(images: [], next: nil).text == #"{"images":[],"next":null}"#)
    }

    @Test("the details of an image survive a round trip")
    func details() throws {
        var image = WireImage.example
        image.details = WireImageDetails(
            frames: 12, isAnimation: true, hasAlpha: false, orientation: 6,
            lastModified: Timestamp(milliseconds: 5_000),
            etag: "\"a\"")
        let result = ImagePin.Result(image: image)
        #expect(try result.roundTripped() == result)
        let members =
            #""frames":12,"animation":true,"alpha":false,"orientation":6,"lastModified":"1970-01-01T00:00:05.000Z","etag":"\"a\"""#
        #expect(result.text.contains(members), "\(result.text)")
    }

    @Test("agent.stats survives a round trip, with and without image statistics")
    func statistics() throws {
        var images = AgentStats.Images()
        images.hits = 1
        images.misses = 2
        images.joined = 3
        images.revalidations = 4
        images.staleAnswers = 5
        images.failures = 6
        images.evictions = 7
        images.downloadedBytes = 8
        images.entries = 9
        images.bytes = 10
        images.indexBytes = 17
        images.reservedBytes = 11
        images.leasedBytes = 12
        images.activeDownloads = 13
        images.queued = 14
        images.maximumBytes = 15
        images.maximumImages = 16
        for images in [images, nil] {
            let stats = AgentStats.Result(
                uptimeMilliseconds: 1, traffic: AgentStats.Traffic(), residentBytes: 2, namespaces: [:], images: images)
            #expect(try stats.roundTripped() == stats)
        }
    }
}
