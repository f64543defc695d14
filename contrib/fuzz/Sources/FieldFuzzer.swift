import LarderHTTPSemantics
@testable import LarderUpstream

/// The input is the value of a response header field, or a URL. Checks that parsed values are within their bounds.
@Sendable
func fuzzFields(_ input: UnsafeRawBufferPointer) {
    let text = String(decoding: input, as: UTF8.self)
    let now = HTTPDate(secondsSinceEpoch: 1_800_000_000)
    let control = CacheControl(text)
    let ages = [control.maximumAge ?? 0, control.staleWhileRevalidate, control.staleIfError]
    require(ages.allSatisfy { (0...1 << 31).contains($0) }, "ages outside of the range of RFC 9111: \(ages)")
    if let date = HTTPDate(parsing: text, now: now) {
        // Years 0 to 9999.
        require(
            (-62_200_000_000...253_500_000_000).contains(date.secondsSinceEpoch),
            "a date outside of the years 0 to 9999")
    }
    if let wait = RetryAfter.duration(text, date: nil, now: now) {
        require(wait >= .zero && wait <= RetryAfter.maxDelay, "the wait is out of range: \(wait)")
    }
    if let range = ContentRange(text) {
        require(range.start >= 0 && range.start < range.total, "an invalid range: \(range)")
    }
    if let url = try? FetchURL(text) {
        require((try? FetchURL(url.text))?.text == url.text, "a URL changes when it is parsed again: \(url.text)")
    }
}
