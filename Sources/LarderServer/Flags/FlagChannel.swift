import LarderConfig
import LarderConfigModel
import LarderFlagRules
import LarderJSON
import LarderProtocol
import NIOCore

/// The subscriptions of one event loop to feature flags, in one channel per namespace.
final class FlagHub {
    /// The time after which flags whose rules use `$flagd.timestamp` are evaluated again.
    static let interval = TimeAmount.seconds(60)

    private let eventLoop: any ServerEventLoop
    private var channels: [ObjectIdentifier: FlagChannel] = [:]
    /// All subscriptions of the loop share the timer. It is pending only while a rule uses the time.
    private var isTimerPending = false

    init(eventLoop: any ServerEventLoop) { self.eventLoop = eventLoop }

    /// Returns the channel of a namespace. Creates it for the first subscription.
    func channel(of namespace: ConfigNamespace, _ server: ServerContext) -> FlagChannel {
        let key = ObjectIdentifier(namespace.publication)
        if let channel = channels[key] { return channel }
        let channel = FlagChannel(namespace, server, on: eventLoop) { [weak self] in
            self?.startTimer()
        } onUnused: { [weak self] in
            self?.channels[key] = nil
        }
        channels[key] = channel
        channel.start()
        return channel
    }

    private func startTimer() {
        if isTimerPending { return }
        isTimerPending = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.interval) { [weak self] in
            guard let self else { return }
            isTimerPending = false
            for channel in channels.values { channel.evaluate { $0.usesTime } }
        }
    }
}

/// Evaluates the subscriptions of one event loop to the flags of one namespace, after each publication and with time.
///
/// The evaluation runs off the loop, for a limited number of subscriptions at a time. A publication during that time does
/// not start another evaluation of subscriptions that still wait for one.
final class FlagChannel {
    private static let subscriptionsPerStep = 64

    let namespace: ConfigNamespace
    private let server: ServerContext
    private let eventLoop: any ServerEventLoop
    /// Called when an outcome may change with time.
    private let onTimedOutcome: () -> Void
    /// Called when the channel has stopped, because no subscription is left.
    private let onUnused: () -> Void
    private var subscriptions: [ObjectIdentifier: FlagSubscription] = [:]
    /// The subscriptions to evaluate.
    private var due: [FlagSubscription] = []
    private var isEvaluating = false
    /// The task that consumes the stream of snapshots. It retains the channel until it is cancelled or the namespace
    /// ends.
    private var consumer: Task<Void, Never>?

    init(
        _ namespace: ConfigNamespace, _ server: ServerContext, on eventLoop: any ServerEventLoop,
        onTimedOutcome: @escaping () -> Void, onUnused: @escaping () -> Void
    ) {
        (self.namespace, self.server, self.eventLoop) = (namespace, server, eventLoop)
        (self.onTimedOutcome, self.onUnused) = (onTimedOutcome, onUnused)
    }

    var publication: ConfigPublication { namespace.publication }

    func add(_ subscription: FlagSubscription) { subscriptions[ObjectIdentifier(subscription)] = subscription }

    func remove(_ subscription: FlagSubscription) {
        subscriptions[ObjectIdentifier(subscription)] = nil
        guard subscriptions.isEmpty else { return }
        consumer.take()?.cancel()
        onUnused()
    }

    /// Starts to consume the snapshots.
    func start() {
        let (snapshots, channel) = (publication.snapshots(), NIOLoopBound(self, eventLoop: eventLoop))
        consumer = Task(executorPreference: eventLoop.makeTaskExecutor { false }) {
            for await _ in snapshots { channel.value.evaluate { _ in true } }
            channel.value.streamFinished()
        }
    }

    private func streamFinished() {
        // If the namespace has not ended, the stream finished because the channel was stopped.
        guard publication.current.hasEnded else { return }
        for subscription in subscriptions.values { subscription.end(.namespaceRemoved) }
    }

    /// Evaluates subscriptions soon, unless they already wait for that.
    func evaluate(_ isWanted: (FlagSubscription) -> Bool) {
        for subscription in subscriptions.values
        where subscription.isActive && !subscription.isDue && isWanted(subscription) {
            subscription.isDue = true
            due.append(subscription)
        }
        continueEvaluation()
    }

    private func continueEvaluation() {
        if isEvaluating || due.isEmpty { return }
        isEvaluating = true
        let step = Array(due.suffix(Self.subscriptionsPerStep))
        due.removeLast(step.count)
        for subscription in step { subscription.isDue = false }
        let queries = step.map(\.query)
        let (namespace, server, eventLoop) = (namespace, server, eventLoop)
        let bound = NIOLoopBound((self, step), eventLoop: eventLoop)
        Task {
            let answers = await FlagReader.answers(to: queries, in: namespace, server)
            eventLoop.execute {
                let (channel, step) = bound.value
                channel.deliver(Array(zip(step, answers ?? [])))
            }
        }
    }

    private func deliver(_ answers: [(FlagSubscription, FlagAnswer)]) {
        if answers.contains(where: { $0.1.usesTime }) { onTimedOutcome() }
        eventLoop.forEachInSlices(answers) { subscription, answer in
            subscription.receive(answer)
        } andThen: {
            self.isEvaluating = false
            self.continueEvaluation()
        }
    }
}

/// A client's subscription to the outcomes of feature flags for one context.
final class FlagSubscription: ConnectionSubscription {
    let id: Int
    private let channel: FlagChannel
    /// A strong reference. The reference cycle ends when the connection closes, because it then removes its
    /// subscriptions.
    private let connection: Connection
    private let names: [String]
    private let context: FlagContext
    /// The number of bytes of the flags and of the context that are charged to the user.
    private let chargedBytes: Int
    /// Whether events may be sent: the reply has been written, for which a batch may have to wait, and the subscription has
    /// not ended.
    private(set) var isActive = false
    /// The reason to end the subscription after the reply; nil to start sending events then.
    private var earlyEnd: ConfigEvent.Reason?
    /// The number of events sent.
    private var sequence = 0
    /// The result of the last evaluation; nil before the first. ``FlagAnswer/changed`` has the flags whose outcome was not
    /// sent yet.
    private var answer: FlagAnswer?
    /// Whether the subscription waits for pending output to drain.
    private var isLagging = false
    /// Whether the channel is about to evaluate the flags.
    var isDue = false

    init(
        id: Int, connection: Connection, channel: FlagChannel, names: [String], context: FlagContext, chargedBytes: Int
    ) {
        (self.id, self.connection, self.channel) = (id, connection, channel)
        (self.names, self.context, self.chargedBytes) = (names, context, chargedBytes)
    }

    var namespace: String { channel.namespace.name }
    var method: String { FlagSubscribe.name }
    /// Whether the outcomes may change with time.
    var usesTime: Bool { answer?.usesTime ?? false }
    var query: FlagQuery {
        FlagQuery(names: names, context: context, rights: connection.rights, known: answer?.outcomes ?? [])
    }

    /// Starts to send events. Called when the reply to the subscription request has been written.
    func replyWritten() {
        guard connection.subscriptions[id] === self else { return }
        isActive = true
        if let earlyEnd { return end(earlyEnd) }
        channel.evaluate { $0 === self }
    }

    /// Sends the outcomes that have changed, now or when pending output has drained.
    func receive(_ new: FlagAnswer) {
        guard isActive else { return }
        var new = new
        new.changed |= answer?.changed ?? 0
        answer = new
        sendChanges()
    }

    func catchUp() {
        isLagging = false
        if isActive { sendChanges() }
    }

    private func sendChanges() {
        guard let answer, answer.changed != 0 else { return }
        if connection.output.isPending {
            if !isLagging { connection.subscriptions.addLagging(self) }
            isLagging = true
            return
        }
        self.answer?.changed = 0
        let changed = names.indices.filter { answer.changed & 1 << $0 != 0 }
        let outcomes = changed.map { WireFlagOutcome(names[$0], answer.outcomes[$0]) }
        connection.loop.traffic.eventsSent += 1
        send(.flags(outcomes, sequence == 0 ? .initial : .change), revision: answer.revision)
    }

    private func send(_ content: ConfigEvent.Content, revision: Int) {
        sequence += 1
        let publication = channel.publication
        let body = ConfigEvent.body(
            namespace: publication.namespace, epoch: publication.epoch, revision: revision,
            state: ConfigState(publication.current.freshness), content: content)
        connection.writeEvent(ByteBuffer(bytes: body), of: id, sequence: sequence)
    }

    func end(_ reason: ConfigEvent.Reason) {
        guard isActive else {
            earlyEnd = reason
            return
        }
        isActive = false
        send(.end(reason), revision: answer?.revision ?? channel.publication.current.snapshot.revision)
        remove()
        connection.closeIfDone()
    }

    func remove() {
        guard connection.subscriptions.remove(self) else { return }
        isActive = false
        connection.loop.traffic.subscriptionsOpen -= 1
        connection.usage.removeSubscription(chargedBytes: chargedBytes)
        channel.remove(self)
    }
}
