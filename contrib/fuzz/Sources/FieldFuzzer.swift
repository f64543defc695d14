import LarderHTTPSemantics
@testable import LarderUpstream

/// The value of a header field of a response: whatever it is, what is read of it is within its bounds.
@Sendable
func fuzzFields(_ input: UnsafeRawBufferPointer) {
    let text = String(decoding: input, as: UTF8.self)
    let now = HTTPDate(secondsSinceEpoch: 1_800_000_000)
    let control = CacheControl(text)
    let ages = [control.maximumAge ?? 0, control.staleWhileRevalidate, control.staleIfError]
    require(ages.allSatisfy { (0...1 << 31).contains($0) }, "seconds beyond RFC 9111: \(ages)")
    if let date = HTTPDate(parsing: text, now: now) {
        // The years 0 to 9999.
        require((-62_200_000_000...253_500_000_000).contains(date.secondsSinceEpoch), "a date of no such year")
    }
    if let wait = RetryAfter.duration(text, date: nil, now: now) {
        require(wait >= .zero && wait <= RetryAfter.longest, "a wait of \(wait)")
    }
    if let range = ContentRange(text) {
        require(range.start >= 0 && range.start < range.total, "a part that is none: \(range)")
    }
    if let url = try? FetchURL(text) {
        require((try? FetchURL(url.text))?.text == url.text, "a URL that reads as another one: \(url.text)")
    }
}
