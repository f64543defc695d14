import LarderConfigModel
import LarderJSON
import LarderUpstream
import Synchronization

/// One connection to an event stream. It reports documents and errors to the state of its source.
final class SSEConnection: Sendable {
    private let source: SSESource
    private let consumer: Int
    private let lastEventID: String?
    private let reader: SSEDocumentReader
    /// Whether the connection still waits for a whole document from the stream.
    private let awaitsDocument = Atomic(false)
    private let hasDelivered = Atomic(false)

    init(source: SSESource, consumer: Int) {
        self.source = source
        self.consumer = consumer
        let configuration = source.configuration
        lastEventID = source.state.withLock {
            $0.connecting(for: consumer, pollsDocument: configuration.pollURL != nil)
        }
        reader = SSEDocumentReader(settings: configuration)
    }

    /// Connects, and reads the stream to its end.
    func run() async -> SSEStreamEnd {
        do throws(ConfigError) {
            return try await stream()
        } catch {
            return failed(error)
        }
    }

    private func failed(_ error: ConfigError) -> SSEStreamEnd {
        .failed(error, hasDelivered: hasDelivered.load(ordering: .relaxed))
    }

    private func stream() async throws(ConfigError) -> SSEStreamEnd {
        let configuration = source.configuration
        var request = FetchRequest(
            url: configuration.url, headers: [("Accept", "text/event-stream"), ("Cache-Control", "no-store")],
            timeouts: FetchTimeouts(idle: configuration.heartbeat, whole: configuration.timeout))
        request.awaitsChange = true
        request.ownHeaders = source.reportFields
        if let lastEventID { request.headers.append(("Last-Event-ID", lastEventID)) }
        try await request.add(configuration.access, source.blocking)
        do {
            return try await source.fetcher.stream(request, clock: source.clock) { head, body throws(UpstreamError) in
                do throws(ConfigError) {
                    return try await self.read(head, &body)
                } catch {
                    return self.failed(error)
                }
            }
        } catch {
            let lacksDocument = awaitsDocument.load(ordering: .relaxed)
            throw lacksDocument && error.code == .timeout ? noDocument : ConfigError(error)
        }
    }

    /// The error for a stream that delivers no whole document within the timeout.
    private var noDocument: ConfigError {
        let skipped =
            source.state.withLock { $0.skippedType }.map { "; events of type \"\($0)\" were ignored" } ?? ""
        return ConfigError(
            .upstreamFailed,
            "\(source.location) sent no whole document within \(source.configuration.timeout)\(skipped); begin each "
                + "stream with one, in an event without a type, or set pollUrl")
    }

    private func read(_ head: StreamHead, _ body: inout StreamBody) async throws(ConfigError) -> SSEStreamEnd {
        if head.status == 204 {
            return .parked(
                ConfigError(
                    .upstreamFailed,
                    "\(source.location) returned status 204; the next connection is opened at the next refresh"))
        }
        if let problem = head.problem { throw ConfigError(problem) }
        guard head.metadata.mediaType == "text/event-stream" else {
            let type = head.metadata.mediaType.map { "\"\($0.prefix(60))\"" } ?? "no media type"
            throw ConfigError(
                .upstreamFailed, "\(source.location) returned \(type) instead of an event stream; check the url")
        }
        var hasDocument = try await begin(body)
        var parser = EventStreamParser(
            maximumEventBytes: source.configuration.maximumBytes, lastEventID: lastEventID ?? "")
        while true {
            let bytes: [UInt8]?
            do {
                bytes = try await body.next()
            } catch {
                throw ConfigError(error)
            }
            guard let bytes else {
                if source.state.withLock({ $0.isEstablished }), !parser.isInsideEvent { return .ended }
                throw ConfigError(
                    .upstreamFailed, "\(source.location) ended its stream; it is opened again after a delay")
            }
            for event in parser.parse(bytes) {
                guard try apply(event, hasDocument: hasDocument) else { continue }
                if !hasDocument { body.allow(nil) }
                hasDocument = true
            }
            if parser.isOverflowing {
                throw ConfigError(
                    .rejected,
                    "\(source.location) sent an event of more than \(source.configuration.maximumBytes) bytes; raise "
                        + "limits.documentBytes, or send a smaller event")
            }
            source.state.withLock { $0.remember(parser.lastEventID, parser.retry, for: consumer) }
        }
    }

    /// Obtains the document to which patches apply: from the poll URL, or from the previous connection.
    /// - Returns: false if the stream has to deliver the document
    private func begin(_ body: StreamBody) async throws(ConfigError) -> Bool {
        if let url = source.configuration.pollURL {
            // Polls only after the connection has been established, so that no change between the poll and the start of
            // the stream is lost.
            while true {
                let (count, validator) = source.state.withLock {
                    ($0.documents.count, $0.documents.newest?.validator)
                }
                // If another fetch has replaced the newest document during this poll, it is unknown which of the two
                // documents is newer. In that case, the loop polls again.
                if deliver(try await source.poll(url, ifChangedFrom: validator), after: count) { return true }
            }
        }
        if lastEventID != nil { return deliver(nil, after: source.state.withLock { $0.documents.count }) }
        awaitsDocument.store(true, ordering: .relaxed)
        body.allow(source.configuration.timeout)
        return false
    }

    /// - Returns: whether the event delivered a document
    private func apply(_ event: EventStreamParser.Event, hasDocument: Bool) throws(ConfigError) -> Bool {
        while true {
            let (base, count) = source.state.withLock { ($0.documents.newest?.value, $0.documents.count) }
            guard let document = try reader.document(after: event, from: hasDocument ? base : nil) else {
                source.state.withLock { $0.skip(event.type, for: consumer) }
                return false
            }
            awaitsDocument.store(false, ordering: .relaxed)
            hasDelivered.store(true, ordering: .relaxed)
            if deliver(document, after: count) { return true }
        }
    }

    /// - Parameter document: nil if the connection resumes from the newest document
    /// - Returns: false if another document has been received since `count` was read
    private func deliver(_ document: SourceDocument?, after count: Int) -> Bool {
        let (effects, newest) = source.state.withLock {
            ($0.deliver(document, after: count, for: consumer), $0.documents.newest)
        }
        guard let effects else { return false }
        if let newest { effects.carryOut(.success(newest)) }
        return true
    }
}

/// Applies the events of a stream to a document.
struct SSEDocumentReader: Sendable {
    let settings: SSESourceSettings

    private var location: String { SourceURL.display(settings.url) }

    /// Returns the document after an event; nil if the type of the event is unknown.
    ///
    /// - Parameter base: the document before the event; nil before the first document of the stream
    /// - Throws: `rejected`. Later events cannot be applied until a whole document has been read. `cancelled` if the
    ///   task is cancelled.
    func document(after event: EventStreamParser.Event, from base: JSONValue?) throws(ConfigError) -> SourceDocument? {
        if settings.patchEvents.contains(event.type) {
            guard let base else {
                throw ConfigError(
                    .rejected, "\(location) sent a patch before any whole document; begin each stream with one")
            }
            let patched = MergePatch.apply(try value(of: event, "a patch"), to: base)
            guard patched.kind == .object else {
                throw ConfigError(
                    .rejected,
                    "\(location) sent a patch that makes the configuration \(patched.kind.article); it must remain "
                        + "an object"
                )
            }
            guard patched.textSize <= settings.maximumBytes else {
                throw ConfigError(
                    .rejected,
                    "\(location) sent a patch after which the document has more than "
                        + "\(settings.maximumBytes) bytes (limits.documentBytes)"
                )
            }
            return source(patched)
        }
        guard event.type == "message" else { return nil }
        let document = try value(of: event, "an event")
        guard document.kind == .object else {
            throw ConfigError(
                .rejected,
                "\(location) sent an event with \(document.kind.article); a configuration must be a JSON object")
        }
        return source(document)
    }

    private func source(_ document: JSONValue) -> SourceDocument {
        SourceDocument(
            value: document, versionPath: settings.versionPath, requirement: settings.versionRequirement,
            validator: nil)
    }

    private func value(of event: EventStreamParser.Event, _ what: String) throws(ConfigError) -> JSONValue {
        do {
            return try JSONValue(parsing: event.data) { Task.isCancelled }
        } catch is CancellationError {
            throw ConfigError(.cancelled, "an event of \(location) was not parsed; the stream was cancelled")
        } catch {
            let advice = event.data.isEmpty ? "; send heartbeats as comments" : ""
            let reason = JSONError.text(error, in: event.data)
            throw ConfigError(.rejected, "\(location) sent \(what) that is not JSON: \(reason)\(advice)")
        }
    }
}
