import LarderConfigModel
import LarderJSON
import LarderUpstream
import Synchronization

/// One connection of the stream, from its request to its end.
extension SSESource {
    func connect(_ consumer: Int) async -> StreamEnd {
        let lastEventID = state.withLock {
            $0.connects(for: consumer, asksElsewhere: configuration.pollURL != nil)
        }
        let connection = StreamConnection(source: self, consumer: consumer, lastEventID: lastEventID)
        do throws(ConfigError) {
            var request = FetchRequest(
                url: configuration.url,
                headers: [("Accept", "text/event-stream"), ("Cache-Control", "no-store")],
                timeouts: FetchTimeouts(idle: configuration.heartbeat, whole: configuration.timeout))
            if let lastEventID { request.headers.append(("Last-Event-ID", lastEventID)) }
            try await configuration.access.open(&request, blocking)
            do {
                return try await fetcher.stream(request, clock: clock) { head, body throws(UpstreamError) in
                    do throws(ConfigError) {
                        return try await connection.read(head, &body)
                    } catch {
                        return .failed(error, hasDelivered: connection.hasDelivered)
                    }
                }
            } catch {
                throw connection.lacksDocument && error.code == .timeout ? connection.noDocument : ConfigError(error)
            }
        } catch {
            return .failed(error, hasDelivered: connection.hasDelivered)
        }
    }
}

/// Reads a connection, and tells its source what comes.
private final class StreamConnection: Sendable {
    private let source: SSESource
    private let consumer: Int
    private let lastEventID: String?
    private let reading: StreamedDocument
    /// Whether a whole document is waited for, and the last type of an event that was passed over meanwhile.
    private let awaited = Mutex<(isDocument: Bool, passedOver: String?)>((false, nil))
    private let delivery = Atomic(false)

    init(source: SSESource, consumer: Int, lastEventID: String?) {
        self.source = source
        self.consumer = consumer
        self.lastEventID = lastEventID
        reading = StreamedDocument(
            location: source.location, patchEvents: source.configuration.patchEvents,
            versionPath: source.configuration.versionPath,
            versionRequirement: source.configuration.versionRequirement, maximumBytes: source.configuration.maximumBytes
        )
    }

    /// Whether the stream itself has delivered a document.
    var hasDelivered: Bool { delivery.load(ordering: .relaxed) }

    /// Whether the stream has begun and has not sent the whole document that it must begin with.
    var lacksDocument: Bool { awaited.withLock { $0.isDocument } }

    /// What is wrong then.
    var noDocument: ConfigError {
        let passedOver =
            awaited.withLock { $0.passedOver }.map { "; what came as event \"\($0)\" was passed over" } ?? ""
        return ConfigError(
            .upstreamFailed,
            "\(source.location) sent no whole document within \(source.configuration.timeout)\(passedOver); a new stream "
                + "must begin with one, as an event without a type, or pollUrl say where it is")
    }

    func read(_ head: StreamHead, _ body: inout StreamBody) async throws(ConfigError) -> StreamEnd {
        if head.status == 204 {
            return .parked(
                ConfigError(
                    .upstreamFailed, "\(source.location) answered 204: it wants no connection before the next refresh"))
        }
        if let problem = head.problem { throw ConfigError(problem) }
        guard head.metadata.mediaType == "text/event-stream" else {
            let type = head.metadata.mediaType.map { "\"\($0.prefix(60))\"" } ?? "no type"
            throw ConfigError(
                .upstreamFailed, "\(source.location) answered with \(type), not with an event stream; check the url")
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
                if source.state.withLock({ $0.isGood }), !parser.isInsideEvent { return .ended }
                throw ConfigError(.upstreamFailed, "\(source.location) ended its stream; it is opened again in a while")
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
                        + "limits.documentBytes or send less")
            }
            source.state.withLock { $0.remember(parser.lastEventID, parser.retry, for: consumer) }
        }
    }

    /// Whether there is a document that patches can be applied to, from elsewhere or from the connection before.
    private func begin(_ body: StreamBody) async throws(ConfigError) -> Bool {
        if let url = source.configuration.pollURL {
            // What changes from here on comes over the stream, so that nothing is lost between the two.
            while true {
                let (mark, known) = source.state.withLock { ($0.mark, $0.document?.validator) }
                // The answer to somebody else's question, which came meanwhile, may be from before the connection.
                guard let document = try await source.poll(url, ifChangedFrom: known) else {
                    if resume(after: mark) { return true } else { continue }
                }
                if tell(document, after: mark) { return true }
            }
        }
        if lastEventID != nil { return resume(after: source.state.withLock { $0.mark }) }
        awaited.withLock { $0.isDocument = true }
        body.allow(source.configuration.timeout)
        return false
    }

    private func resume(after mark: Int) -> Bool {
        guard let effects = source.state.withLock({ $0.resumed(after: mark, for: consumer) }) else { return false }
        effects.signal?.yield()
        return true
    }

    /// Whether the event brought a document.
    private func apply(_ event: EventStreamParser.Event, hasDocument: Bool) throws(ConfigError) -> Bool {
        while true {
            let (base, mark) = source.state.withLock { ($0.document?.value, $0.mark) }
            guard let document = try reading.document(after: event, from: hasDocument ? base : nil) else {
                awaited.withLock { $0.passedOver = event.type }
                return false
            }
            awaited.withLock { $0.isDocument = false }
            delivery.store(true, ordering: .relaxed)
            if tell(document, after: mark) { return true }
        }
    }

    private func tell(_ document: SourceDocument, after mark: Int) -> Bool {
        guard let effects = source.state.withLock({ $0.tell(document, after: mark, for: consumer) }) else {
            return false
        }
        effects.carryOut(.success(document))
        return true
    }
}
