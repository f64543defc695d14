internal import AsyncHTTPClient
internal import LarderHTTPSemantics
internal import LarderPlatform
internal import NIOHTTP1

extension FetchMetadata {
    /// Reads the header fields of a response.
    init(_ response: HTTPClientResponse, from url: FetchURL) {
        let fields = response.headers
        let now = HTTPDate(secondsSinceEpoch: Int64(WallClock.system.now / 1000))
        let date = fields.first(name: "Date").flatMap { HTTPDate(parsing: $0, now: now) }
        status = Int(response.status.code)
        self.url = url.text
        validator = Validator(
            etag: fields.first(name: "ETag"), lastModified: fields.first(name: "Last-Modified"),
            date: fields.first(name: "Date"), receivedAt: now, url: url.text)
        mediaType = Self.mediaType(fields.first(name: "Content-Type"))
        retryAfter = fields.first(name: "Retry-After").flatMap { RetryAfter.duration($0, date: date, now: now) }
    }

    private static func mediaType(_ field: String?) -> String? {
        guard let type = field?.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false).first else {
            return nil
        }
        let trimmed = type.split(whereSeparator: \.isWhitespace).first
        return trimmed.map { $0.lowercased() }
    }
}
