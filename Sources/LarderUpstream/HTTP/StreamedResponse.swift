internal import AsyncHTTPClient
internal import NIOCore

/// The head of a response whose body is streamed.
package struct StreamHead: Sendable {
    package let metadata: FetchMetadata
    /// All header fields in their original order, one per line of the header.
    package let fields: [(name: String, value: String)]
    private let url: FetchURL

    /// The status code. After redirects that were followed, it is that of the final response.
    package var status: Int { metadata.status }

    /// The error for a status other than 200; nil for 200. The body can still be read, for example for details of the
    /// failure.
    package var problem: UpstreamError? { status == 200 ? nil : failure(insteadOf: "a document") }

    /// The error for a status that is not a success.
    ///
    /// - Parameter wanted: the expected content, such as "a document", for the message
    package func failure(insteadOf wanted: String) -> UpstreamError {
        UpstreamError(status: metadata, from: url, wanted: wanted)
    }

    /// The URL that responded, for messages. The query is removed, because a signed URL is a secret.
    package var display: String { url.display }

    init(_ response: HTTPClientResponse, from url: FetchURL) {
        metadata = FetchMetadata(response, from: url)
        fields = response.headers.map { ($0.name, $0.value) }
        self.url = url
    }
}

/// The body of a response, in pieces as they arrive.
package struct StreamBody {
    /// Pieces with fewer bytes than this do not count towards ``FetchTimeouts/slowest``, because the work for each is
    /// out of proportion to its bytes.
    private static let tinyPiece = 64
    /// After `smallPiecesInRow` consecutive pieces of fewer than `smallPiece` bytes, ``next(atLeast:)`` pauses before
    /// it continues reading.
    private static let (smallPiece, smallPiecesInRow) = (512, 8)
    /// How long small pieces are read without a pause, and how long each pause lasts. Without pauses, an origin that
    /// sends 40,000 chunks of one byte per second would occupy a whole core.
    private static let (work, pause) = (Duration.microseconds(250), Duration.milliseconds(10))

    private var pieces: HTTPClientResponse.Body.AsyncIterator
    private let url: FetchURL
    private let deadline: Deadline
    /// The number of bytes received so far, before decoding.
    private(set) var received = 0
    private var maximumReceived = Int.max
    /// The error that ended the body while ``next(atLeast:)`` was collecting a block. That call returned the bytes
    /// before the error, and the next call throws the error.
    private var failure: UpstreamError?
    private var isAtEnd = false
    /// Decodes the body; nil if the body is returned as received.
    private var decoder: Inflater?
    private var smallPieces = 0
    private var lastPause = ContinuousClock.now

    init(_ response: HTTPClientResponse, from url: FetchURL, deadline: Deadline) {
        pieces = response.body.makeAsyncIterator()
        self.url = url
        self.deadline = deadline
    }

    /// The decoded body of a response that may have a content coding. If the coding is unknown, reading fails.
    init(decoding response: HTTPClientResponse, from url: FetchURL, deadline: Deadline) {
        self.init(response, from: url, deadline: deadline)
        do throws(UpstreamError) {
            decoder = try Inflater(for: response, from: url)
        } catch {
            failure = error
        }
    }

    /// Whether the body is decoded.
    var isEncoded: Bool { decoder != nil }

    /// Limits the remaining time of the response to `duration`; nil removes the limit. At first, the streams of
    /// ``HTTPFetcher`` have no limit, and those of ``ImageFetcher`` must end within ``FetchTimeouts/whole``. The idle
    /// limit stays in effect.
    package func allow(_ duration: Duration?) { deadline.allow(duration) }

    /// Returns the next bytes, at least one; nil at the end of the body. The connection is read only on demand, and the
    /// idle limit applies only during this call.
    ///
    /// - Throws: ``UpstreamError``: `truncated` if the connection ends before the body is complete
    package mutating func next() async throws(UpstreamError) -> [UInt8]? { try await next(atLeast: 1) }

    /// Returns the next bytes as one block: at least `count` bytes, fewer only before the end of the body or an error.
    /// Returns nil at the end of the body. If an error follows some bytes, the next call throws it.
    ///
    /// If `count` is more than 1, many small pieces in a row are read at a limited pace. Further input stays in the
    /// buffers of the connection.
    ///
    /// - Throws: ``UpstreamError``, as ``next()`` does
    package mutating func next(atLeast count: Int) async throws(UpstreamError) -> [UInt8]? {
        if let failure { throw failure }
        if isAtEnd { return nil }
        deadline.progressed()
        defer { deadline.paused() }
        var block: [UInt8] = []
        while block.count < count {
            if let decoder {
                do throws(UpstreamError) {
                    if let bytes = try decoder.next(from: url) {
                        block += bytes
                        continue
                    }
                } catch {
                    return try end(block, error)
                }
            }
            let piece: ByteBuffer?
            do {
                piece = try await pieces.next(isolation: #isolation)
            } catch {
                return try end(block, UpstreamError(within: error, from: url, received: received))
            }
            // The stream of a cancelled request can end like a complete one.
            if Task.isCancelled { throw UpstreamError(.cancelled, "the request to \(url.display) was cancelled") }
            guard let piece else {
                if let decoder, received > 0, !decoder.isComplete { return try end(block, Inflater.truncated(url)) }
                isAtEnd = true
                return block.isEmpty ? nil : block
            }
            if piece.readableBytes == 0 { continue }
            received += piece.readableBytes
            if received > maximumReceived {
                isAtEnd = true
                return nil
            }
            deadline.received(piece.readableBytes < Self.tinyPiece ? 0 : piece.readableBytes)
            if let decoder {
                decoder.receive(Array(piece.readableBytesView))
            } else {
                block.append(contentsOf: piece.readableBytesView)
            }
            smallPieces = piece.readableBytes < Self.smallPiece ? smallPieces + 1 : 0
            if smallPieces >= Self.smallPiecesInRow, block.count < count { await pauseIfDue() }
        }
        return block
    }

    /// Reads the whole body. Returns nil if it has more than `limit` bytes, or more than twice as many before decoding: a
    /// compressed body can be slightly longer than its content, but compressed data can be endless without content.
    ///
    /// - Throws: ``UpstreamError``, as ``next()`` does
    package mutating func collect(atMost limit: Int) async throws(UpstreamError) -> [UInt8]? {
        maximumReceived = 2 * limit
        var bytes: [UInt8] = []
        while let piece = try await next() {
            guard piece.count <= limit - bytes.count else { return nil }
            bytes += piece
        }
        return received > maximumReceived ? nil : bytes
    }

    /// Ends the body with an error. If there are bytes before the error, returns them, and the next call throws it.
    private mutating func end(_ block: [UInt8], _ error: UpstreamError) throws(UpstreamError) -> [UInt8] {
        failure = error
        if block.isEmpty || Task.isCancelled { throw error }
        return block
    }

    private mutating func pauseIfDue() async {
        guard ContinuousClock.now - lastPause >= Self.work else { return }
        // During the pause the connection is read at most once more. Further input stays in the kernel.
        try? await Task.sleep(for: Self.pause, tolerance: .zero)
        lastPause = .now
    }
}
