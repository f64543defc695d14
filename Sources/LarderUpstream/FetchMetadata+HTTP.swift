internal import AsyncHTTPClient
internal import NIOHTTP1

extension FetchMetadata {
    /// Takes the fields of an answer.
    init(_ response: HTTPClientResponse, from url: FetchURL) {
        let fields = response.headers
        let now = HTTPDate.now()
        let date = fields.first(name: "Date").flatMap { HTTPDate(parsing: $0, now: now) }
        let lastModified = fields.first(name: "Last-Modified")
        status = Int(response.status.code)
        self.url = url.text
        validator = Validator(etag: fields.first(name: "ETag"), lastModified: lastModified)
        mediaType = Self.mediaType(fields.first(name: "Content-Type"))
        self.lastModified = lastModified.flatMap { HTTPDate(parsing: $0, now: now) }
        self.date = date
        expires = fields.first(name: "Expires").flatMap { HTTPDate(parsing: $0, now: now) }
        hasExpires = fields.contains(name: "Expires")
        age = fields.first(name: "Age").flatMap { Int($0) }.flatMap { $0 >= 0 ? $0 : nil }
        cacheControl = Self.joined(fields["Cache-Control"])
        vary = Self.joined(fields["Vary"])
        retryAfter = fields.first(name: "Retry-After").flatMap { RetryAfter.duration($0, date: date, now: now) }
    }

    private static func joined(_ lines: [String]) -> String? {
        lines.isEmpty ? nil : lines.joined(separator: ", ")
    }

    private static func mediaType(_ field: String?) -> String? {
        guard let type = field?.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false).first else {
            return nil
        }
        let trimmed = type.split(whereSeparator: \.isWhitespace).first
        return trimmed.map { $0.lowercased() }
    }
}
