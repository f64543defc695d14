import LarderConfigModel

/// The documents of a stream, the state of its connection, and the callers that wait for a document.
///
/// The value is protected by a lock. Its methods return actions that the caller performs after it has released the
/// lock.
struct SSEStreamState: Sendable {
    typealias Waiter = CheckedContinuation<Result<SourceDocument, ConfigError>, Never>

    /// Actions to perform after the lock has been released.
    struct Effects: Sendable {
        var signal: AsyncStream<Void>.Continuation?
        var waiters: [Waiter] = []

        func carryOut(_ result: Result<SourceDocument, ConfigError>) {
            for waiter in waiters { waiter.resume(returning: result) }
            signal?.yield()
        }
    }

    /// The newest document, from the stream or from a poll.
    struct Documents: Sendable {
        private(set) var newest: SourceDocument?
        /// The number of documents received so far.
        private(set) var count = 0
        /// How many times the stream has delivered a document or a new connection has confirmed the newest document.
        private(set) var deliveries = 0
        /// Whether the newest document is one that the stream has delivered or confirmed, but that neither the consumer
        /// nor a fetch has got yet.
        private(set) var isUnread = false

        fileprivate mutating func polled(_ document: SourceDocument) {
            newest = document
            count += 1
            isUnread = false
        }

        fileprivate mutating func delivered(_ document: SourceDocument?) {
            if let document {
                newest = document
                count += 1
            }
            deliveries += 1
            isUnread = true
        }

        fileprivate mutating func read() { isUnread = false }
    }

    private(set) var documents = Documents()
    /// The value of ``Documents/count`` when the last fetch got its response; nil before the first.
    private(set) var fetchOrder: Int?
    /// Why the connection failed; nil while it works.
    private(set) var failure: ConfigError?
    /// The ID of the last event. A new connection resumes after that event. Empty if it cannot resume.
    private(set) var lastEventID = ""
    /// Whether the current or last connection has delivered a document or resumed.
    private(set) var isEstablished = false
    /// The minimum time between two connections, as requested by the origin.
    private(set) var retry: Duration?
    /// The type of the last event that the current or last connection has ignored; nil for none.
    private(set) var skippedType: String?

    /// Identifies the current consumer. Calls for another consumer do not change the state, because the connection of
    /// the previous consumer may still be ending.
    private(set) var consumer = 0
    /// Makes the consumer ask for the newest document or failure; nil if there is no consumer.
    private var signal: AsyncStream<Void>.Continuation?
    /// Makes the connections for the consumer.
    private var follower: Task<Void, Never>?
    /// Whether the consumer is a fetch.
    private var isTemporary = false
    /// The task of the running connection, or of the pause before the next one.
    private var current: Task<SSEStreamEnd?, Never>?
    /// Whether ``current`` is a pause.
    private var isPausing = false
    /// Whether ``current``, or the pause that begins next, should end early for a new connection.
    private var isInterrupted = false
    /// Whether the current connection has to deliver a whole document.
    private var isReading = false
    /// Whether the next connection has to deliver a whole document.
    private var isReadingRequested = false
    private var waiters: [Int: Waiter] = [:]

    // MARK: The connection

    /// Adds a consumer. It replaces the previous one, whose connection then ends. If the previous one is a fetch, the
    /// new one keeps its connection instead, because a source opens only one connection at its start.
    /// - Parameters:
    ///   - isTemporary: whether the consumer is a fetch, which needs connections only if there is no other consumer
    ///   - follow: starts the task that makes the connections for the consumer with the given ID
    /// - Returns: the ID of the consumer and its task; nil for a fetch that needs no connections of its own
    mutating func begin(
        _ signal: AsyncStream<Void>.Continuation, isTemporary: Bool, follow: (Int) -> Task<Void, Never>
    ) -> (consumer: Int, task: Task<Void, Never>)? {
        if hasConsumer, isTemporary { return nil }
        if hasConsumer, self.isTemporary, let follower {
            self.signal = signal
            self.isTemporary = false
            return (consumer, follower)
        }
        consumer += 1
        self.signal = signal
        self.isTemporary = isTemporary
        // A fetch that waits for a connection of the previous consumer does not wait for the first pause of this one.
        isInterrupted = !waiters.isEmpty
        current = nil
        isPausing = false
        isReading = false
        let task = follow(consumer)
        follower = task
        return (consumer, task)
    }

    /// Whether a consumer is present, which keeps a connection open.
    var hasConsumer: Bool { signal != nil }

    /// Whether a consumer is present whose stream is not connected: its connection is being established, has ended, or
    /// follows after a pause.
    var isConnecting: Bool { hasConsumer && (isPausing || !isEstablished || current == nil) }

    /// Removes a consumer.
    /// - Returns: whether the task that makes its connections must be cancelled; false if another consumer has taken
    ///   over the connections of a fetch
    mutating func end(_ consumer: Int, isTemporary: Bool) -> Bool {
        guard consumer == self.consumer else { return true }
        guard isTemporary == self.isTemporary else { return false }
        signal = nil
        follower = nil
        return true
    }

    /// Records that a connection or pause has begun.
    /// - Returns: whether it should end at once
    mutating func began(_ task: Task<SSEStreamEnd?, Never>, isPause: Bool, for consumer: Int) -> Bool {
        guard consumer == self.consumer else { return true }
        current = task
        isPausing = isPause
        return isInterrupted
    }

    /// Records that the connection or pause has ended.
    /// - Returns: whether it was interrupted
    mutating func ended(for consumer: Int) -> Bool {
        guard consumer == self.consumer else { return false }
        defer { isInterrupted = false }
        current = nil
        isPausing = false
        isReading = false
        return isInterrupted
    }

    /// Prepares a new connection.
    /// - Parameter pollsDocument: whether the whole document is polled from another URL after the connection has been
    ///   established. Such a connection does not resume, because the origin would repeat events that the document
    ///   already includes.
    /// - Returns: the event ID to resume after; nil if the connection has to begin with a whole document
    mutating func connecting(for consumer: Int, pollsDocument: Bool = false) -> String? {
        guard consumer == self.consumer else { return nil }
        // A caller that interrupted a pause before it began gets the document of this connection.
        isInterrupted = false
        isEstablished = false
        skippedType = nil
        isReading =
            isReadingRequested || !waiters.isEmpty || documents.newest == nil || lastEventID.isEmpty || pollsDocument
        isReadingRequested = false
        return isReading ? nil : lastEventID
    }

    /// Stores the event ID and the delay for the next connection. That connection does not resume if the ID is not a
    /// valid header value.
    mutating func remember(_ lastEventID: String, _ retry: Duration?, for consumer: Int) {
        guard consumer == self.consumer else { return }
        self.lastEventID = lastEventID.isEventIDForHeader ? lastEventID : ""
        self.retry = retry ?? self.retry
    }

    /// Records that an event of an unknown type was ignored.
    mutating func skip(_ type: String, for consumer: Int) {
        if consumer == self.consumer { skippedType = type }
    }

    /// Records a document from the stream, or that the connection has been established and resumes from the newest
    /// document.
    /// - Parameters:
    ///   - document: nil if the connection resumes
    ///   - count: the value of ``Documents/count`` when the event was applied to the then newest document, which
    ///     produced `document`, or when the caller compared its document with the newest one
    /// - Returns: nil if another document has been received since then; the event must then be applied to that document
    ///   instead
    mutating func deliver(_ document: SourceDocument?, after count: Int, for consumer: Int) -> Effects? {
        // An interrupted connection may deliver documents that are older than the fetch that interrupted it.
        guard consumer == self.consumer, !isInterrupted, (document ?? documents.newest) != nil else {
            return Effects()
        }
        guard count == documents.count else { return nil }
        documents.delivered(document)
        failure = nil
        isEstablished = true
        isReading = false
        let waiters = takeWaiters()
        if !waiters.isEmpty { fetchOrder = documents.count }
        return Effects(signal: signal, waiters: waiters)
    }

    /// Records that the connection has failed or could not be established.
    mutating func fail(_ error: ConfigError, for consumer: Int) -> Effects {
        guard consumer == self.consumer else { return Effects() }
        failure = error
        // Events after an invalid one cannot be applied, so the next connection does not resume.
        if error.isRejection { lastEventID = "" }
        let waiters = takeWaiters()
        // The callers that wait for a document get the error. If the consumer got a signal as well, the same failure
        // would be counted twice.
        return Effects(signal: waiters.isEmpty ? signal : nil, waiters: waiters)
    }

    /// Returns what the consumer gets after a signal: the newest document or, if the consumer has it, the failure of the
    /// connection. Nil if there is neither.
    mutating func delivery() -> (delivery: SourceDelivery?, effects: Effects) {
        let order = documents.count
        if let document = documents.newest, documents.isUnread {
            documents.read()
            // If the connection failed after this document, the failure follows.
            let effects = Effects(signal: failure == nil ? nil : signal)
            return (SourceDelivery(.success(.document(document)), order: order), effects)
        }
        if let failure { return (SourceDelivery(.failure(failure), order: order), Effects()) }
        return (documents.newest.map { SourceDelivery(.success(.document($0)), order: order) }, Effects())
    }

    // MARK: Fetches

    /// Chooses between the response to a poll and a document that the stream delivered during the poll.
    ///
    /// If the response differs from the newest document, the connection may still deliver older documents, because the
    /// position of the response in the stream is unknown. The connection is therefore interrupted. The new one polls
    /// again after it has been established.
    ///
    /// - Parameters:
    ///   - response: nil if the origin responded that nothing has changed
    ///   - deliveries: ``Documents/deliveries`` at the time of the request
    mutating func accept(
        _ response: SourceDocument?, requestedAt deliveries: Int
    ) -> (answer: SourceResponse, interrupted: Task<SSEStreamEnd?, Never>?) {
        defer { fetchOrder = documents.count }
        let newest = documents.newest
        let isNewer = newest != nil && response.flatMap { newest?.isOlder(than: $0) } == true
        if deliveries != documents.deliveries, let newest, !isNewer {
            documents.read()
            return (.document(newest), nil)
        }
        guard let response else { return (.notModified, nil) }
        documents.polled(response)
        let isConfirmed = newest?.value == response.value
        guard hasConsumer, isEstablished, failure == nil, !isConfirmed else { return (.document(response), nil) }
        isInterrupted = true
        return (.document(response), current)
    }

    /// Adds a caller that waits for a whole document from a new connection.
    /// - Parameter id: identifies the caller
    /// - Returns: the connection or pause to cancel, if any
    mutating func add(_ waiter: Waiter, id: Int) -> Task<SSEStreamEnd?, Never>? {
        waiters[id] = waiter
        guard !isReading else { return nil }
        isReadingRequested = true
        isInterrupted = true
        return current
    }

    mutating func leave(_ id: Int) -> Waiter? { waiters.removeValue(forKey: id) }

    private mutating func takeWaiters() -> [Waiter] {
        defer { waiters = [:] }
        return Array(waiters.values)
    }
}

/// How a connection of a stream ended.
enum SSEStreamEnd: Sendable {
    /// The origin closed the connection between two events, after the connection had delivered a document or resumed.
    /// This is not a failure.
    case ended
    /// The connection failed. `hasDelivered`: whether it had delivered a document.
    case failed(ConfigError, hasDelivered: Bool)
    /// The origin refuses further connections.
    case parked(ConfigError)
}

extension String {
    /// Whether the text is valid as the header field `Last-Event-ID` (RFC 9110, section 5.5) and short enough for
    /// servers to accept.
    fileprivate var isEventIDForHeader: Bool {
        utf8.count <= 4096 && first != " " && last != " " && utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}
