internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// The head of an answer whose body comes piece by piece.
package struct StreamHead: Sendable {
    /// The fields of the answer.
    package let metadata: FetchMetadata
    /// All fields, line by line as they came.
    package let fields: [(name: String, value: String)]
    private let url: FetchURL

    /// The status code, of any kind but a redirect.
    package var status: Int { metadata.status }

    /// Why this is no answer to read from: the error for every status but 200. A caller may read the body all the same, for
    /// what it says about the failure.
    package var problem: UpstreamError? { status == 200 ? nil : failure(insteadOf: "a document") }

    /// The error for a status that does not bring what was wanted.
    ///
    /// - Parameter wanted: what that was, as the message calls it
    package func failure(insteadOf wanted: String) -> UpstreamError {
        UpstreamError(status: metadata, from: url, wanted: wanted)
    }

    /// The address that answered, for messages: a signed URL is a secret, so its query is not shown.
    package var display: String { url.display }

    init(_ response: HTTPClientResponse, from url: FetchURL) {
        metadata = FetchMetadata(response, from: url)
        fields = response.headers.map { ($0.name, $0.value) }
        self.url = url
    }
}

/// The body of an answer, piece by piece as it comes.
package struct StreamBody {
    /// Pieces of fewer bytes cost more than they bring and do not count towards ``FetchTimeouts/slowest``.
    private static let tinyPiece = 64
    /// After this many pieces in a row of fewer bytes, ``next(atLeast:)`` lets more arrive before it reads on.
    private static let (smallPiece, smallPiecesInRow) = (512, 8)
    /// For how long small pieces are read, and then not. Reading 40,000 chunks of one byte a second as they come takes a
    /// whole core.
    private static let (work, rest) = (Duration.microseconds(250), Duration.milliseconds(10))

    private var pieces: HTTPClientResponse.Body.AsyncIterator
    private let url: FetchURL
    private let deadline: Deadline
    private var received = 0
    /// The error that ended the body after bytes that were returned first.
    private var failure: UpstreamError?
    private var isAtEnd = false
    private var smallPieces = 0
    private var lastRest = ContinuousClock.now

    init(_ response: HTTPClientResponse, from url: FetchURL, deadline: Deadline) {
        pieces = response.body.makeAsyncIterator()
        self.url = url
        self.deadline = deadline
    }

    /// Lets the answer go on for so long from now; nil, as at the beginning, for ever. The limit on silence stays.
    package func allow(_ duration: Duration?) { deadline.allow(duration) }

    /// The next bytes, at least one; nil at the end of the answer. Nothing more is taken from the connection until they are
    /// asked for, and the limit on silence counts only while somebody waits here.
    ///
    /// - Throws: ``UpstreamError``: `truncated` where the connection ended before the answer did
    package mutating func next() async throws(UpstreamError) -> [UInt8]? { try await next(atLeast: 1) }

    /// The next bytes as one block: at least `count` of them, fewer only before the end of the answer or an error; nil at
    /// the end of the answer. An error is thrown by the call after the one that returned the last bytes before it.
    ///
    /// With a `count` of more than 1 small pieces are collected at a limited pace. What the origin sends faster waits in
    /// the buffers of the connection.
    ///
    /// - Throws: ``UpstreamError``, as ``next()`` does
    package mutating func next(atLeast count: Int) async throws(UpstreamError) -> [UInt8]? {
        if let failure { throw failure }
        if isAtEnd { return nil }
        deadline.progressed()
        defer { deadline.paused() }
        var block: [UInt8] = []
        while block.count < count {
            let piece: ByteBuffer?
            do {
                piece = try await pieces.next(isolation: #isolation)
            } catch {
                let failure = UpstreamError(within: error, from: url, received: received)
                if block.isEmpty || Task.isCancelled { throw failure }
                self.failure = failure
                return block
            }
            // A cancelled stream may end like a complete one.
            if Task.isCancelled { throw UpstreamError(.cancelled, "the request to \(url.display) was cancelled") }
            guard let piece else {
                isAtEnd = true
                return block.isEmpty ? nil : block
            }
            if piece.readableBytes == 0 { continue }
            received += piece.readableBytes
            deadline.received(piece.readableBytes < Self.tinyPiece ? 0 : piece.readableBytes)
            block.append(contentsOf: piece.readableBytesView)
            smallPieces = piece.readableBytes < Self.smallPiece ? smallPieces + 1 : 0
            if smallPieces >= Self.smallPiecesInRow, block.count < count { await restIfDue() }
        }
        return block
    }

    private mutating func restIfDue() async {
        guard ContinuousClock.now - lastRest >= Self.work else { return }
        // The connection is read once more at most before the next piece is taken. The rest is left to the kernel.
        try? await Task.sleep(for: Self.rest, tolerance: .zero)
        lastRest = .now
    }
}
