import LarderJSON
import LarderProtocol
import Testing

@Suite("Encoding of image.prefetch and image.progress")
struct ImagePrefetchTests {
    @Test("a list survives a round trip, and a URL without options is written as a string")
    func list() throws {
        let parameters = ImagePrefetch.Parameters(
            [
                ImagePrefetch.Item(ImageReference(url: "a")),
                ImagePrefetch.Item(ImageReference(url: "b", cacheKey: "k"), expectedDigest: WireDigest(someDigest)),
            ], concurrency: 4, reportsProgress: false)
        #expect(try parameters.roundTripped() == parameters)
        #expect(
            parameters.text
                == #"{"urls":["a",{"url":"b","cacheKey":"k","expectedDigest":"sha256:\#(someDigest)"}],"#
                + #""concurrency":4,"progress":false}"#)
        #expect(try ImagePrefetch.Parameters.read(#"[["a"]]"#) == .init([.init(ImageReference(url: "a"))]))
    }

    @Test(
        "an invalid list is rejected; the error for an element names its position, not its URL",
        arguments: [
            (#"{}"#, "\"urls\" is missing; pass"), (#"{"manifest":"/m"}"#, "unknown parameter \"manifest\""),
            (#"{"urls":null}"#, "\"urls\" is missing; pass"), (#"{"urls":[]}"#, "\"urls\""),
            (#"{"urls":"a"}"#, "\"urls\""),
            (#"{"urls":["a",""]}"#, "element 2 of \"urls\""), (#"{"urls":["a",7]}"#, "element 2 of \"urls\""),
            (#"{"urls":[{"cacheKey":"secret"}]}"#, "element 1 of \"urls\""),
            (#"{"urls":[{"url":"secret","expectedDigest":"x"}]}"#, "element 1 of \"urls\""),
            (#"{"urls":["a"],"concurrency":0}"#, "\"concurrency\""),
            (#"{"urls":["a"],"concurrency":65}"#, "\"concurrency\""), (#"{"urls":["a"],"progress":1}"#, "\"progress\""),
        ])
    func refused(text: String, start: String) throws {
        let error = try #require(refusal { try ImagePrefetch.Parameters.read(text) })
        #expect(error.code == .invalidParams)
        #expect(error.detail.hasPrefix(start), "\(error.detail)")
        #expect(!error.detail.contains("secret"))
    }

    @Test("a prefetch has at most 10,000 images")
    func count() throws {
        func read(_ count: Int) throws -> ImagePrefetch.Parameters {
            try ImagePrefetch.Parameters.read(
                #"{"urls":[\#(repeatElement(#""a""#, count: count).joined(separator: ","))]}"#)
        }
        #expect(refusal { try read(10_000) } == nil)
        #expect(refusal { try read(10_001) }?.code == .invalidParams)
    }

    @Test("a summary survives a round trip and keeps unknown error names")
    func result() throws {
        let known = WireError(.upstreamFailed, "answered 404", reason: "status")
        let failures = [
            ImagePrefetch.Failure(url: "a", error: known),
            ImagePrefetch.Failure(url: "b", error: WireError(.invalidParams, "no URL")),
        ]
        let full = ImagePrefetch.Result(
            total: 5, fetched: 1, cached: 2, failed: 2, bytes: 7, failures: failures, failuresOmitted: 1)
        #expect(try full.roundTripped() == full)
        let whole = ImagePrefetch.Result(total: 1, fetched: 1, cached: 0, failed: 0, bytes: 7, failures: [])
        #expect(try whole.roundTripped() == whole)
        #expect(whole.text == #"{"total":1,"fetched":1,"cached":0,"failed":0,"bytes":7,"failures":[]}"#)
        let later = try ImagePrefetch.Result(
            from: JSONValue(
                parsing: #"{"total":1,"fetched":0,"cached":0,"failed":1,"bytes":0,"#
                    + #""failures":[{"url":"a","name":"melted","detail":"too warm"}]}"#))
        #expect(later.failures.first?.error.code.name == "melted")
        #expect(later.failures.first?.error.detail == "too warm")
        #expect(later.failures.first?.error.code.isRetryable == false)
    }

    @Test(
        "a progress notification has the id of its request in its original notation",
        arguments: ["7", "7.0", #""a""#, "null"])
    func progress(id: String) throws {
        let request = try #require(RequestID(JSONValue(parsing: id)))
        let progress = ImageProgress(request: request, done: 1, failed: 2, bytes: 3, total: 4)
        let message = JSONValue.building { progress.write(to: &$0) }
        #expect(
            message.compactText
                == #"{"jsonrpc":"2.0","method":"image.progress","params":"#
                + #"{"request":\#(id),"done":1,"failed":2,"bytes":3,"total":4}}"#)
        #expect(try ImageProgress(params: #require(message["params"])) == progress)
    }

    @Test(
        "an invalid progress notification is rejected",
        arguments: [
            #"{}"#, #"{"request":[],"done":1,"failed":2,"bytes":3,"total":4}"#, #"[]"#,
            #"{"request":1,"done":-1,"failed":2,"bytes":3,"total":4}"#, #"{"request":1,"done":1,"failed":2,"bytes":3}"#,
        ])
    func brokenProgress(text: String) throws {
        #expect(refusal { try ImageProgress(params: JSONValue(parsing: text)) }?.code == .invalidParams)
    }
}
