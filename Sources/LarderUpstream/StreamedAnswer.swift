internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// The head of an answer whose body comes piece by piece.
public struct StreamHead: Sendable {
    /// The fields of the answer.
    public let metadata: FetchMetadata
    /// All fields, line by line as they came.
    public let fields: [(name: String, value: String)]
    private let url: FetchURL

    /// The status code, of any kind but a redirect.
    public var status: Int { metadata.status }

    /// Why this is no answer to read from: the error for every status but 200. A caller may read the body all the same, for
    /// what it says about the failure.
    public var problem: UpstreamError? { status == 200 ? nil : failure(insteadOf: "a document") }

    /// The error for a status that does not bring what was wanted.
    ///
    /// - Parameter wanted: what that was, as the message calls it
    public func failure(insteadOf wanted: String) -> UpstreamError {
        UpstreamError(status: metadata, from: url, wanted: wanted)
    }

    /// The address that answered, for messages: a signed URL is a secret, so its query is not shown.
    public var display: String { url.display }

    init(_ response: HTTPClientResponse, from url: FetchURL) {
        metadata = FetchMetadata(response, from: url)
        fields = response.headers.map { ($0.name, $0.value) }
        self.url = url
    }
}

/// The body of an answer, piece by piece as it comes.
public struct StreamBody {
    private var pieces: HTTPClientResponse.Body.AsyncIterator
    private let url: FetchURL
    private let deadline: Deadline
    private var received = 0

    init(_ response: HTTPClientResponse, from url: FetchURL, deadline: Deadline) {
        pieces = response.body.makeAsyncIterator()
        self.url = url
        self.deadline = deadline
    }

    /// Lets the answer go on for so long from now; nil, as at the beginning, for ever. The limit on silence stays.
    public func allow(_ duration: Duration?) { deadline.allow(duration) }

    /// The next bytes, at least one; nil at the end of the answer. Nothing more is taken from the connection until they are
    /// asked for, and the limit on silence counts only while somebody waits here.
    ///
    /// - Throws: ``UpstreamError``: `truncated` where the connection ended before the answer did
    public mutating func next() async throws(UpstreamError) -> [UInt8]? {
        deadline.progressed()
        let before = received
        defer { deadline.paused(received: received - before) }
        while true {
            let piece: ByteBuffer?
            do {
                piece = try await pieces.next(isolation: #isolation)
            } catch {
                throw UpstreamError(within: error, from: url, received: received)
            }
            // A cancelled stream may end like a complete one.
            if Task.isCancelled { throw UpstreamError(.cancelled, "the request to \(url.display) was cancelled") }
            guard let piece else { return nil }
            if piece.readableBytes == 0 { continue }
            received += piece.readableBytes
            return Array(piece.readableBytesView)
        }
    }
}
