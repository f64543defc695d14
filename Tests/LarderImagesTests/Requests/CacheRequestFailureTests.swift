import LarderHTTPSemantics
import LarderUpstream
import Testing

@testable import LarderImages

@Suite("Stale images after a failure")
struct CacheRequestFailureTests {
    private func answers(_ policy: CachePolicy, _ error: UpstreamError) -> Bool {
        let stored = StoredCandidate(
            freshness: ResponseFreshness(response([("Cache-Control", "max-age=60, stale-if-error=30")])))
        return CacheRequest(policy: policy).answersStale(after: error, stored, now: now + 61)
    }

    @Test("a stale image is served after an outage, but not after other failures")
    func outages() {
        for status in [500, 502, 503, 504] {
            #expect(answers(.default, UpstreamError(.status, "", status: status)))
        }
        for status in [401, 403, 404, 410, 429, 501] {
            #expect(!answers(.networkFirst, UpstreamError(.status, "", status: status)))
        }
        for code in [
            UpstreamError.Code.connectFailed, .timeout, .tlsFailed, .connectionClosed, .truncated, .malformedAnswer,
            .empty,
        ] {
            #expect(answers(.default, UpstreamError(code, "")))
        }
        for code in [UpstreamError.Code.cancelled, .shutDown, .invalidURL, .tooLarge, .invalidRedirect] {
            #expect(!answers(.networkFirst, UpstreamError(code, "")))
        }
    }

    @Test("a stale image is served if the response is not an image, but not if it is an unacceptable image")
    func refusedBodies() {
        func answers(_ policy: CachePolicy, _ code: ImageError.Code) -> Bool {
            let stored = StoredCandidate(freshness: ResponseFreshness(response([("Cache-Control", "max-age=60")])))
            return CacheRequest(policy: policy).answersStale(after: ImageError(code, ""), stored, now: now + 61)
        }
        for code: ImageError.Code in [.notAnImage, .truncatedImage, .damagedImage, .lengthMismatch] {
            #expect(answers(.networkFirst, code))
            #expect(!answers(.default, code))
        }
        for code: ImageError.Code in [.excludedType, .tooLarge, .tooManyPixels, .digestMismatch] {
            #expect(!answers(.networkFirst, code))
        }
    }
}
