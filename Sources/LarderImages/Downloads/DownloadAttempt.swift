internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderPlatform
internal import LarderUpstream
internal import Synchronization

/// One request of a download, and the part of the body that its response contains.
struct DownloadAttempt: Sendable {
    /// The result of an attempt that did not fail.
    enum Step: Sendable {
        case notModified(StoredResponse)
        /// The whole body is on disk.
        case complete
        /// The body was rejected, because it is not an acceptable image or there is no room for it.
        case rejected(ImageError)
        /// The response does not match the cached image or the partial download. The download must start again without
        /// a condition.
        case restart(UpstreamError)
    }

    /// The number of bytes to collect before they are parsed, hashed and written.
    private static let block = 16 << 10

    let downloader: ImageDownloader
    let order: DownloadOrder
    let progress: DownloadProgress
    let partial: PartialDownload
    let space: SpaceRetry
    /// The cached response for a conditional request; nil for an unconditional one.
    let condition: StoredResponse?
    /// The deadline of the whole download.
    let end: ContinuousClock.Instant

    private var disk: ImageDiskCache { downloader.disk }
    private var blocking: BlockingThreadPool { downloader.blocking }
    private var now: Int { downloader.clock.now }
    /// All fields of the request.
    private var fields: [(name: String, value: String)] { downloader.fetcher.fields(adding: order.headers) }

    /// When the request was sent, in seconds since 1970. The duration of the request does not depend on changes of the
    /// clock in the meantime.
    ///
    /// - Parameter sent: the uptime at which the request was sent, in seconds
    private func requestTime(_ sent: Int) -> Int { now - (downloader.clock.uptime - sent) }

    /// Sends the request and writes the body.
    func run() async throws(UpstreamError) -> Step {
        let part = partial.part
        let sent = downloader.clock.uptime
        let request = request(for: part)
        partial.beginAttempt()
        return try await downloader.fetcher.stream(
            request,
            onRedirect: { redirect in partial.add(response(redirect.status, redirect.fields, nil, sent)) },
            isAwaited: { [progress] in progress.isAwaited }
        ) { (head, body) async throws(UpstreamError) -> Step in
            let response = response(head.status, head.fields, head.metadata.url, sent)
            partial.end(with: response)
            // The URL that sent the start of the image, and no other one, was asked for the rest.
            let resumed = request.missingPart?.belongs(to: head.metadata.url) ?? false ? part : nil
            switch (head.status, resumed) {
            case (304, _): return try await notModified(head, &body, request, sent)
            case (200, _), (203, _): return try await begin(head, &body, response)
            case (206, let part?): return try await resume(head, &body, part)
            case (416, _?): return .restart(Self.failure(head, "cannot send the rest of the image"))
            case (206, nil): throw Self.failure(head, "sent an unrequested part of the image")
            case (204, _), (205, _): throw Self.empty(head)
            default: throw head.failure(insteadOf: "an image")
            }
        }
    }

    /// - Parameter part: the part of the image that has been received, if any
    private func request(for part: PartialDownload.Part?) -> FetchRequest {
        var timeouts = downloader.fetcher.timeouts
        timeouts.whole = max(.zero, end - .now)
        if let limits = order.limits {
            (timeouts.slowest, timeouts.slowestWhileAwaited) = (limits.slowest, limits.slowestWhileAwaited)
            timeouts.idle = .seconds(limits.maxSilenceSeconds)
        }
        var request = FetchRequest(
            url: order.url, headers: order.headers, validator: part == nil ? condition?.validator : nil,
            timeouts: timeouts)
        request.missingPart = part?.missing
        (request.tls, request.limitsAuthoritiesToOrigin) = (order.tls, true)
        request.proxy = order.proxy
        return request
    }

    private func notModified(
        _ head: StreamHead, _ body: inout StreamBody, _ request: FetchRequest, _ sent: Int
    ) async throws(UpstreamError) -> Step {
        guard var response = condition, request.validator?.isIssued(by: head.metadata.url) ?? false else {
            throw Self.failure(head, "returned 304 to an unconditional request")
        }
        // A 304 response has no body, but reading to the end of the response returns the connection to the pool.
        _ = try await body.next()
        let isSameImage = response.freshen(
            with: ResponseFields(head.fields), request: fields, requestTime: requestTime(sent), responseTime: now,
            redirectEnd: partial.redirects.end)
        return isSameImage
            ? .notModified(response)
            : .restart(Self.failure(head, "returned 304 for another image than the requested one"))
    }

    private func begin(
        _ head: StreamHead, _ body: inout StreamBody, _ response: StoredResponse
    ) async throws(UpstreamError) -> Step {
        await partial.replace(with: nil, blocking)
        let codings = ContentCodings(head.fields)
        var start: [UInt8] = []
        if codings.mayBeDecoded {
            guard let bytes = try await body.next(atLeast: ContentCodings.sniffedBytes) else { throw Self.empty(head) }
            start = bytes
        }
        let decoder = codings.decoder(for: start)
        // The declared length is that of the encoded body.
        let length = decoder == nil ? Self.declaredLength(head) : nil
        if length == 0 { throw Self.empty(head) }
        let writer: BlobWriter
        do throws(ImageError) {
            writer = try await space.run { [writers = disk.writers] () throws(ImageError) in
                try writers.begin(declaredLength: length)
            }
        } catch {
            return .rejected(error)
        }
        let part = PartialDownload.Part(
            writer: writer, response: response, url: head.metadata.url, isResumable: !codings.mayBeDecoded,
            total: length)
        await partial.replace(with: part, blocking)
        progress.begin(total: length)
        if !start.isEmpty, let step = try await write(start, decoder, head, writer) { return step }
        return try await write(head, &body, writer, decoder)
    }

    private func resume(
        _ head: StreamHead, _ body: inout StreamBody, _ part: PartialDownload.Part
    ) async throws(UpstreamError) -> Step {
        let lines = head.fields.filter { $0.name.lowercased() == "content-range" }
        guard lines.count == 1, let range = ContentRange(lines[0].value), range.start == part.writer.written,
            range.total == (part.total ?? range.total), let tag = head.metadata.validator?.etag,
            let expected = part.tag, tag.utf8.elementsEqual(expected.utf8),
            !ContentCodings(head.fields).mayBeDecoded
        else {
            return .restart(Self.failure(head, "sent another part of the image than the requested one"))
        }
        partial.expect(range.total)
        progress.expect(range.total)
        return try await write(head, &body, part.writer, nil)
    }

    private func response(
        _ status: Int, _ lines: [(name: String, value: String)], _ url: String?, _ sent: Int
    ) -> StoredResponse {
        StoredResponse(
            status: status, fields: ResponseFields(lines), url: url, request: fields, requestTime: requestTime(sent),
            responseTime: now, redirectEnd: partial.redirects.end)
    }

    /// Writes the body. Each block is written before the next one is read from the connection. The first block may be
    /// as short as one byte, so that a body that is not an image is rejected at once.
    private func write(
        _ head: StreamHead, _ body: inout StreamBody, _ writer: BlobWriter, _ decoder: Inflater?
    ) async throws(UpstreamError) -> Step {
        func nextCount() -> Int {
            // Reading one byte more than the limit permits is enough to reject the image.
            writer.written == 0 ? 1 : max(1, min(Self.block, disk.accounts.limits.bytesPerImage + 1 - writer.written))
        }
        while let piece = try await body.next(atLeast: nextCount()) {
            if let step = try await write(piece, decoder, head, writer) { return step }
        }
        if let decoder, !decoder.isComplete {
            throw Self.failure(.truncated, head, "sent an incomplete compressed body; check the server and any proxies")
        }
        guard writer.written > 0 else { throw Self.empty(head) }
        return .complete
    }

    /// Writes the next bytes of a body, decoded if there is a decoder.
    ///
    /// - Returns: nil if the body may continue
    private func write(
        _ piece: [UInt8], _ decoder: Inflater?, _ head: StreamHead, _ writer: BlobWriter
    ) async throws(UpstreamError) -> Step? {
        progress.add(piece.count)
        var next: [UInt8]? = piece
        if let decoder {
            decoder.receive(piece)
            next = try Self.decoded(decoder, head)
        }
        while let block = next, !block.isEmpty {
            do throws(ImageError) {
                try await space.run { () throws(ImageError) in try writer.append(block) }
            } catch {
                if error.code == .notAnImage, let unknown = ContentCodings(head.fields).unknown {
                    throw Self.failure(
                        .unsupportedEncoding, head,
                        "sent the unrequested content encoding \"\(unknown)\"; serve the image unencoded")
                }
                return .rejected(error)
            }
            next = nil
            if let decoder { next = try Self.decoded(decoder, head) }
        }
        return nil
    }

    private static func decoded(_ decoder: Inflater, _ head: StreamHead) throws(UpstreamError) -> [UInt8]? {
        do throws(Inflater.Failure) {
            return try decoder.next()
        } catch {
            switch error {
            case .invalid:
                throw failure(
                    .unsupportedEncoding, head, "sent an invalid compressed body; serve the image unencoded")
            case .expandsTooMuch:
                throw failure(
                    .unsupportedEncoding, head,
                    "sent a body that expands to more than \(Inflater.maxRatio) times its size; serve the image unencoded"
                )
            }
        }
    }

    // MARK: The head

    /// The declared length of the body; nil if it is not declared.
    private static func declaredLength(_ head: StreamHead) -> Int? {
        func lines(_ name: String) -> [String] { head.fields.filter { $0.name.lowercased() == name }.map(\.value) }
        guard lines("transfer-encoding").isEmpty, let text = lines("content-length").first,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        // A length that does not fit into an `Int` exceeds any limit.
        return text.isEmpty ? nil : Int(text) ?? .max
    }

    private static func empty(_ head: StreamHead) -> UpstreamError {
        failure(.empty, head, "returned \(head.status) with an empty body; serve the image")
    }

    private static func failure(_ head: StreamHead, _ text: String) -> UpstreamError {
        failure(.malformedAnswer, head, text + "; check the server and any proxies")
    }

    private static func failure(_ code: UpstreamError.Code, _ head: StreamHead, _ text: String) -> UpstreamError {
        UpstreamError(code, "\(head.display) \(text)", status: head.status, retryAfter: head.metadata.retryAfter)
    }
}

/// The content codings that a response declares (`Content-Encoding`). The agent requests none, but object stores send
/// images as they were uploaded, and servers declare codings that the body does not have. The bytes decide.
struct ContentCodings: Sendable {
    /// The number of bytes after which ``decoder(for:)`` can decide.
    static let sniffedBytes = 64

    /// The declared codings in lower case, in order.
    private let names: [String]

    /// - Parameter fields: the fields of the response
    init(_ fields: [(name: String, value: String)]) {
        let values = fields.filter { $0.name.lowercased() == "content-encoding" }.map { $0.value.lowercased() }
        names = values.flatMap { $0.split(separator: ",") }
            .map { String($0.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" }) }
            .filter { !$0.isEmpty }
    }

    /// Whether the body may be compressed in a way that the agent decodes. Such a body is not resumed, because an offset
    /// in it is not an offset in the image.
    var mayBeDecoded: Bool { isGzip || names.contains("deflate") }

    private var isGzip: Bool { names.contains { $0 == "gzip" || $0 == "x-gzip" } }

    /// The codings that the agent cannot decode, for messages; nil if there are none. The listed names are not codings
    /// of the bytes, but occur on intact images.
    var unknown: String? {
        let known = ["gzip", "x-gzip", "deflate", "identity", "none", "utf-8", "aws-chunked", "binary"]
        let unknown = names.filter { !known.contains($0) }
        return unknown.isEmpty ? nil : String(unknown.joined(separator: ", ").prefix(40))
    }

    /// The decoder for a body; nil if the bytes are not compressed as declared.
    ///
    /// - Parameter start: the first bytes of the body: ``sniffedBytes``, or all if there are fewer
    func decoder(for start: [UInt8]) -> Inflater? {
        if isGzip, start.starts(with: [0x1F, 0x8B]) { return Inflater(.gzip) }
        guard names.contains("deflate"), start.count >= 2 else { return nil }
        // No image begins like the header of zlib (RFC 1950, section 2.2).
        if start[0] & 0x0F == 8, start[0] >> 4 <= 7, (Int(start[0]) << 8 | Int(start[1])) % 31 == 0 {
            return Inflater(.zlib)
        }
        var reader = ImageHeaderReader()
        if case .rejected = reader.feed(start) { return Inflater(.raw) }
        return nil
    }
}

/// The received part of an image, which is kept between the attempts of a download, and the freshness of the responses
/// to the last attempt. One attempt uses it at a time.
final class PartialDownload: Sendable {
    struct Part: Sendable {
        /// Writes the bytes.
        let writer: BlobWriter
        /// The response to which the first bytes belong.
        let response: StoredResponse
        /// The URL of that response, after redirects.
        let url: String
        /// Whether the bytes are those of the body, so that an offset in the body is one in the image.
        let isResumable: Bool
        /// The size of the image in bytes; nil until a response declares it.
        var total: Int?

        /// The entity tag for resumption; nil if the rest cannot be requested. Only a strong tag identifies the bytes
        /// (RFC 9110, section 13.1.5).
        var tag: String? { isResumable && writer.written > 0 ? response.strongTag : nil }

        /// The rest of the image; nil if it cannot be requested.
        var missing: MissingPart? { tag.map { MissingPart(url: url, offset: writer.written, tag: $0) } }
    }

    private struct State {
        var part: Part?
        var redirects = RedirectFreshness()
        var lifetime: Int?
    }

    // A mutex, because the HTTP client calls the closures of an attempt on its own threads.
    private let state = Mutex(State())

    func beginAttempt() { state.withLock { ($0.redirects, $0.lifetime) = (RedirectFreshness(), nil) } }

    /// Adds a redirect of the last attempt.
    func add(_ redirect: StoredResponse) { state.withLock { $0.redirects.add(redirect) } }

    /// Adds the response that ended the redirects of the last attempt.
    func end(with response: StoredResponse) {
        state.withLock { $0.lifetime = ResponseFreshness.explicitLifetime(of: response) }
    }

    /// The redirects of the last attempt.
    var redirects: RedirectFreshness { state.withLock { $0.redirects } }

    /// How long the responses to the last attempt allow its failure to be remembered, in seconds; nil if they do not
    /// specify it.
    var lifetime: Int? { state.withLock { $0.redirects.lifetime(ofFailure: $0.lifetime) } }

    var part: Part? { state.withLock { $0.part } }

    /// Replaces the part, and removes the file of the previous one.
    func replace(with part: Part?, _ blocking: BlockingThreadPool) async {
        let last = state.withLock { state in
            defer { state.part = part }
            return state.part
        }
        guard let last else { return }
        await blocking.run { last.writer.discard() }
    }

    /// Sets the size of the image in bytes.
    func expect(_ total: Int) { state.withLock { $0.part?.total = total } }
}
