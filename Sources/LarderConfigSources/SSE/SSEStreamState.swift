import LarderConfigModel
import LarderUpstream

/// What a stream has told so far, how its connection fares, and who waits for it. A value behind a lock; its functions
/// answer with what is to be done once the lock is free.
struct StreamState: Sendable {
    typealias Waiter = CheckedContinuation<Result<SourceDocument, ConfigError>, Never>

    /// What follows from a change of the state.
    struct Effects: Sendable {
        var signal: AsyncStream<Void>.Continuation?
        var waiters: [Waiter] = []

        /// Tells everybody; not under the lock.
        func carryOut(_ result: Result<SourceDocument, ConfigError>) {
            for waiter in waiters { waiter.resume(returning: result) }
            signal?.yield()
        }
    }

    /// The request for a whole document over a new connection, and who waits for it.
    private struct FullRead: Sendable {
        /// Whether the present connection has to bring a whole document.
        var isUnderWay = false
        /// Whether the next connection has to bring one.
        var isRequested = false
        private(set) var waiters: [Int: Waiter] = [:]
        private var lastWaiter = 0

        mutating func add(_ waiter: Waiter) -> Int {
            lastWaiter += 1
            waiters[lastWaiter] = waiter
            return lastWaiter
        }

        mutating func remove(_ id: Int) -> Waiter? { waiters.removeValue(forKey: id) }

        mutating func removeAll() -> [Waiter] {
            defer { waiters = [:] }
            return Array(waiters.values)
        }
    }

    /// The newest document: what the events make of the last whole one.
    private(set) var document: SourceDocument?
    /// Grows with each document, whoever brought it.
    private(set) var mark = 0
    /// Grows with each document that the stream brought or that a new connection confirmed.
    private(set) var told = 0
    /// Whether the document was not handed out yet.
    private var isUntold = false
    /// What is wrong with the connection; nil while it is good.
    private var failure: ConfigError?
    /// What a new connection says to go on where this one ended; empty where it must begin anew.
    private(set) var lastEventID = ""
    /// Whether the present connection, or the last one, brought a document or went on where another one ended.
    private(set) var isGood = false
    /// How long the origin wants to be left alone between two connections.
    private(set) var retry: Duration?

    /// Which of the consumers is the present one: a former one's connection may take a moment to end.
    private(set) var consumer = 0
    /// Nil where nobody keeps a connection.
    private var signal: AsyncStream<Void>.Continuation?
    /// What goes on: a connection, or a pause.
    private var current: Task<StreamEnd?, Never>?
    /// Whether what goes on is to be ended for something better.
    private var isInterrupted = false
    /// Whether the origin wants no connection any more.
    private var isParked = false
    private var fullRead = FullRead()

    // MARK: The connection

    /// A new consumer; what goes on is the former one's to end.
    mutating func begin(_ signal: AsyncStream<Void>.Continuation) -> Int {
        consumer += 1
        self.signal = signal
        isInterrupted = false
        current = nil
        fullRead.isUnderWay = document == nil
        return consumer
    }

    /// Whether somebody keeps a connection.
    var hasConsumer: Bool { signal != nil }

    /// A consumer is gone.
    mutating func end(_ consumer: Int) {
        if consumer == self.consumer { signal = nil }
    }

    /// Notes what goes on, and says whether it is to be ended at once.
    mutating func goesOn(_ task: Task<StreamEnd?, Never>, for consumer: Int) -> Bool {
        guard consumer == self.consumer else { return true }
        current = task
        return isInterrupted
    }

    /// Notes the end of what went on, and says whether it was interrupted.
    mutating func ended(for consumer: Int) -> Bool {
        guard consumer == self.consumer else { return false }
        defer { isInterrupted = false }
        current = nil
        fullRead.isUnderWay = false
        return isInterrupted
    }

    /// A connection is about to be made. The id to say, or nothing where it has to bring a whole document.
    ///
    /// - Parameter asksElsewhere: whether the whole document is asked for once the connection stands. No id is said then:
    ///   the origin would send again what that document already has in it.
    mutating func connects(for consumer: Int, asksElsewhere: Bool = false) -> String? {
        guard consumer == self.consumer else { return nil }
        isParked = false
        isGood = false
        fullRead.isUnderWay =
            fullRead.isRequested || !fullRead.waiters.isEmpty || document == nil || lastEventID.isEmpty || asksElsewhere
        fullRead.isRequested = false
        return fullRead.isUnderWay ? nil : lastEventID
    }

    /// The connection is there, and goes on from the document that is held; nil where that came after `mark`.
    mutating func resumed(after mark: Int, for consumer: Int) -> Effects? {
        guard consumer == self.consumer, document != nil, !isInterrupted else { return Effects() }
        guard mark == self.mark else { return nil }
        told += 1
        failure = nil
        isGood = true
        isUntold = true
        return Effects(signal: signal)
    }

    /// Notes what a new connection will have to say. After an id that cannot be said it begins anew.
    mutating func remember(_ lastEventID: String, _ retry: Duration?, for consumer: Int) {
        guard consumer == self.consumer else { return }
        self.lastEventID = lastEventID.canBeSaid ? lastEventID : ""
        self.retry = retry ?? self.retry
    }

    /// The stream brought a document; nil where another one came since `mark`, which it has to be made from.
    mutating func tell(_ document: SourceDocument, after mark: Int, for consumer: Int) -> Effects? {
        // A connection that is given up may tell what is older than the reason for that.
        guard consumer == self.consumer, !isInterrupted else { return Effects() }
        guard mark == self.mark else { return nil }
        hold(document)
        told += 1
        failure = nil
        isGood = true
        isUntold = true
        fullRead.isUnderWay = false
        return Effects(signal: signal, waiters: fullRead.removeAll())
    }

    /// The connection failed, or could not be made.
    mutating func fail(_ error: ConfigError, isParked: Bool, for consumer: Int) -> Effects {
        guard consumer == self.consumer else { return Effects() }
        failure = error
        self.isParked = isParked
        // After an event that makes no sense the ones behind it make none either.
        if error.code == .rejected { lastEventID = "" }
        let waiters = fullRead.removeAll()
        // Who waits hears of it anyway, and one failure is not counted twice.
        return Effects(signal: waiters.isEmpty ? signal : nil, waiters: waiters)
    }

    // MARK: Questions

    /// What a signal stood for.
    mutating func answer(location: String) -> (answer: Result<SourceAnswer, ConfigError>, effects: Effects) {
        if let document, isUntold {
            isUntold = false
            // A connection that failed behind its last document is told next.
            return (.success(.document(document)), Effects(signal: failure == nil ? nil : signal))
        }
        if let failure { return (.failure(failure), Effects()) }
        guard let document else {
            return (.failure(ConfigError(.upstreamFailed, "\(location) has not sent a document yet")), Effects())
        }
        return (.success(.document(document)), Effects())
    }

    /// Decides between an answer to a question and what the stream told while it was under way.
    ///
    /// What the connection still has to tell may be older than an answer that differs from what it has told so far, and
    /// nothing says where in the stream the answer stands. So the connection is given up for a new one, which asks once
    /// more when it stands.
    ///
    /// - Parameters:
    ///   - answer: nil where the origin said that nothing has changed
    ///   - told: ``told`` when the question was put
    mutating func take(
        _ answer: SourceDocument?, askedAt told: Int
    ) -> (answer: SourceAnswer, interrupted: Task<StreamEnd?, Never>?) {
        if told != self.told, let document, !(answer?.isCertainlyNewer(than: document) ?? false) {
            isUntold = false
            return (.document(document), nil)
        }
        guard let answer else { return (.notModified, nil) }
        let isConfirmed = document?.value == answer.value
        hold(answer)
        isUntold = false
        guard hasConsumer, isGood, failure == nil, !isConfirmed else { return (.document(answer), nil) }
        isInterrupted = true
        return (.document(answer), current)
    }

    /// Waits for a whole document on a new connection; what is to be ended for that, if anything.
    mutating func await(_ waiter: Waiter) -> (id: Int, interrupted: Task<StreamEnd?, Never>?) {
        let id = fullRead.add(waiter)
        guard !fullRead.isUnderWay else { return (id, nil) }
        fullRead.isRequested = true
        isInterrupted = true
        return (id, current)
    }

    mutating func leave(_ id: Int) -> Waiter? { fullRead.remove(id) }

    /// Ends the pause after which nothing would come, if that is what goes on.
    mutating func unpark() -> Task<StreamEnd?, Never>? {
        guard isParked else { return nil }
        isInterrupted = true
        return current
    }

    private mutating func hold(_ document: SourceDocument) {
        self.document = document
        mark += 1
    }
}

/// How a connection of a stream ended.
enum StreamEnd: Sendable {
    /// The origin ended it between two events, after it had delivered a document or resumed. That is not a failure.
    case ended
    /// It failed; `hasDelivered`: after it had delivered a document.
    case failed(ConfigError, hasDelivered: Bool)
    /// The origin wants no connection any more.
    case parked(ConfigError)
}

extension String {
    /// Whether it can be said as an id: a header can carry it (RFC 9110, section 5.5), and servers take headers of that
    /// length.
    fileprivate var canBeSaid: Bool {
        utf8.count <= 4096 && first != " " && last != " " && utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}

extension SourceDocument {
    /// Whether both say their versions and these have an order.
    fileprivate func isCertainlyNewer(than other: SourceDocument) -> Bool {
        guard let version, let theirs = other.version else { return false }
        return theirs.isOlder(than: version)
    }
}
