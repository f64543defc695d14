import LarderJSON
import LarderProtocol
import Synchronization

/// A subscription that the streams of a client with the same path, namespace and mode share.
///
/// A new stream starts with a snapshot that is current when the stream starts. The agent sends such a snapshot only to a
/// new subscription. Each new stream therefore causes a new subscription, which replaces the one before it for all
/// streams. Streams that start while a request for a subscription is in flight share the next one. So the agent has at
/// most two subscriptions, one of them only for the duration of a request.
///
/// The client has no tasks of its own. The task of one of the waiting streams sends the request, when its mailbox
/// delivers its turn. If this task is cancelled, another stream gets the turn.
final class SharedSubscription: Sendable {
    /// The properties that the streams share.
    struct Key: Hashable {
        let path: JSONPath
        let namespace: ExactText
        let mode: ConfigSubscribe.Mode
    }

    /// A subscription at the agent, or the request for one. It ends when it is released.
    private final class Round: EventReceiver {
        let receiver: Mutex<SnapshotReceiver>
        private let owner: SharedSubscription

        init(_ receiver: SnapshotReceiver, of owner: SharedSubscription) {
            self.receiver = Mutex(receiver)
            self.owner = owner
        }

        /// The position that the next subscription can resume from; nil for none.
        var position: SnapshotReceiver.Position? { receiver.withLock { $0.resumption } }

        func receive(_ event: ConfigEvent) throws(LarderClientError) {
            let snapshot = try receiver.withLock { receiver throws(LarderClientError) -> LarderSnapshot? in
                try receiver.receive(event)
                return receiver.take()
            }
            if let snapshot { owner.deliver(snapshot, of: self) }
        }

        func interrupt(_ error: LarderClientError) { owner.end(self, .interruption(error)) }

        func withdraw() { owner.end(self, .withdrawal) }
    }

    private struct State {
        /// The subscription that feeds ``members``, or did until it ended.
        var current: Round?
        /// Ends the subscription of ``current`` when it is released; nil once the subscription has ended.
        var open: OpenSubscription?
        var members: [SnapshotMailbox] = []
        /// The request in flight, and the mailboxes that it is for.
        var pending: Round?
        var joining: [SnapshotMailbox] = []
        /// Set if the subscription of ``pending`` ends before ``SharedSubscription/subscribe(_:)`` has noticed that
        /// the agent accepted it.
        var pendingEnd: SnapshotMailbox.Delivery?
        /// The mailboxes that wait for the next request.
        var waiting: [SnapshotMailbox] = []
        /// The mailbox whose consumer sends the request in flight or the next one; nil if no request is needed.
        var leader: SnapshotMailbox?

        /// Chooses the mailbox whose consumer sends the next request.
        mutating func nextLeader() -> SnapshotMailbox? {
            leader = waiting.first
            return leader
        }
    }

    /// Sends a request for a subscription, whose events go to the receiver.
    typealias Send =
        @Sendable (ConfigSubscribe.Parameters, any EventReceiver) async throws(LarderClientError) -> OpenSubscription

    let key: Key
    private let state = Mutex(State())

    init(_ key: Key) { self.key = key }

    /// Adds a mailbox. It gets the snapshots of the next subscription. If the stream resumes after an interruption, and
    /// has the newest snapshot of the current subscription, it gets the snapshots of that one.
    func attach(_ mailbox: SnapshotMailbox) {
        mailbox.begin()
        let (isMember, leader) = state.withLock { state -> (Bool, SnapshotMailbox?) in
            if state.open != nil, let position = mailbox.position, state.current?.position == position {
                state.members.append(mailbox)
                return (true, nil)
            }
            state.waiting.append(mailbox)
            return (false, state.leader == nil ? state.nextLeader() : nil)
        }
        if isMember { mailbox.subscribed() }
        leader?.takeTurn()
    }

    /// Removes a mailbox. Ends the subscription if no other mailbox uses it.
    func detach(_ mailbox: SnapshotMailbox) {
        let (leader, _) = state.withLock { state -> (SnapshotMailbox?, OpenSubscription?) in
            state.members.removeAll { $0 === mailbox }
            state.joining.removeAll { $0 === mailbox }
            state.waiting.removeAll { $0 === mailbox }
            let isVacant = state.leader === mailbox && state.pending == nil
            // The subscription is released outside of the lock.
            return (isVacant ? state.nextLeader() : nil, state.members.isEmpty ? state.open.take() : nil)
        }
        leader?.takeTurn()
    }

    /// Forgets what the next subscription would resume from. Called when no stream refers to this object any more.
    func clear() {
        // Released outside of the lock.
        _ = state.withLock { $0.current.take() }
    }

    /// Sends a request for a subscription. Called by the consumer whose turn it is. It does not run on the actor of that
    /// consumer, because the other streams wait for the reply, and that actor may be busy when the reply arrives.
    /// - Parameter send: sends the request
    @concurrent
    func subscribe(_ send: Send) async {
        let (round, since) = state.withLock { state -> (Round, SnapshotReceiver.Position?) in
            state.joining = state.waiting
            state.waiting = []
            state.pendingEnd = nil
            var receiver = SnapshotReceiver(mode: key.mode)
            // The subscription resumes where the one before it ended, if all mailboxes have that snapshot.
            if let last = state.current?.receiver.withLock({ $0 }), let position = last.resumption,
                state.joining.allSatisfy({ $0.position == position })
            {
                receiver = last
                receiver.begin()
            }
            let round = Round(receiver, of: self)
            state.pending = round
            return (round, receiver.resumption)
        }
        let parameters = ConfigSubscribe.Parameters(
            path: key.path, namespace: key.namespace.text, mode: key.mode, since: since?.revision, epoch: since?.epoch)
        do throws(LarderClientError) {
            finish(round, .success(try await send(parameters, round)))
        } catch {
            finish(round, .failure(error))
        }
    }

    /// Handles the reply to the request in flight.
    private func finish(_ round: Round, _ result: Result<OpenSubscription, LarderClientError>) {
        let (joined, end, leader, _) = state.withLock {
            state -> ([SnapshotMailbox], SnapshotMailbox.Delivery?, SnapshotMailbox?, [OpenSubscription?]) in
            var joined = state.joining
            var end = state.pendingEnd
            // Subscriptions are released outside of the lock.
            var released: [OpenSubscription?] = []
            switch result {
            case .success(let open) where end != nil:
                // The subscription has already ended. The next one continues from its revision.
                if state.open == nil { state.current = round }
                released = [open]
            case .success(let open):
                released = [state.open]
                (state.current, state.open) = (round, open)
                state.members += joined
                if state.members.isEmpty { released.append(state.open.take()) }
            case .failure(let error) where error.code == .cancelled:
                // Only the task that sent the request was cancelled.
                joined.removeAll { $0 === state.leader }
                state.waiting = joined + state.waiting
                joined = []
            case .failure(let error): end = .interruption(error)
            }
            (state.pending, state.joining, state.pendingEnd) = (nil, [], nil)
            return (joined, end, state.nextLeader(), released)
        }
        for mailbox in joined {
            // A subscription that has already ended may have delivered a snapshot.
            if case .success = result { mailbox.subscribed() }
            if let end { mailbox.end(end) }
        }
        leader?.takeTurn()
    }

    /// Passes a snapshot to the mailboxes. The mailboxes that wait for the first snapshot of the request in flight get
    /// none of the subscription before it, which may be older than the start of their streams.
    private func deliver(_ snapshot: LarderSnapshot, of round: Round) {
        let mailboxes = state.withLock { state -> [SnapshotMailbox] in
            if state.pending === round { return state.members + state.joining }
            return state.current === round ? state.members : []
        }
        for mailbox in mailboxes { mailbox.offer(snapshot) }
    }

    private func end(_ round: Round, _ end: SnapshotMailbox.Delivery) {
        let (mailboxes, _) = state.withLock { state -> ([SnapshotMailbox], OpenSubscription?) in
            if state.pending === round { state.pendingEnd = end }
            guard state.current === round else { return ([], nil) }
            defer { state.members = [] }
            // The subscription is released outside of the lock.
            return (state.members, state.open.take())
        }
        for mailbox in mailboxes { mailbox.end(end) }
    }
}

/// The shared subscriptions of a client.
final class SubscriptionTable: Sendable {
    private struct Entry {
        let subscription: SharedSubscription
        var streams: Int
    }

    private let entries = Mutex<[SharedSubscription.Key: Entry]>([:])

    /// Returns the subscription of a key. Each call must be balanced by ``leave(_:)``.
    func join(_ key: SharedSubscription.Key) -> SharedSubscription {
        entries.withLock { entries in
            entries[key, default: Entry(subscription: SharedSubscription(key), streams: 0)].streams += 1
            return entries[key]?.subscription ?? SharedSubscription(key)
        }
    }

    func leave(_ subscription: SharedSubscription) {
        let isUnused = entries.withLock { entries in
            entries[subscription.key]?.streams -= 1
            guard entries[subscription.key]?.streams == 0 else { return false }
            entries[subscription.key] = nil
            return true
        }
        if isUnused { subscription.clear() }
    }
}

/// Buffers the newest snapshot for one stream until the consumer of ``deliveries()`` takes it.
///
/// A mailbox outlives a connection: the subscription on the next connection uses the same mailbox. No snapshot is
/// delivered twice, and revisions only increase within an epoch.
final class SnapshotMailbox: Sendable {
    /// An element of the stream.
    enum Delivery: Sendable {
        /// It is the turn of the consumer to call ``SharedSubscription/subscribe(_:)``.
        case turn
        /// The agent has accepted the subscription.
        case subscribed
        case snapshot(LarderSnapshot)
        /// The subscription ended with an error, or the agent did not accept it.
        case interruption(LarderClientError)
        /// A change of the settings ended the subscription. The reply to the next attempt shows which settings are in
        /// force.
        case withdrawal
    }

    private typealias Consumer = CheckedContinuation<Delivery?, Never>

    private struct State {
        var hasTurn = false
        var isSubscribed = false
        /// Whether ``Delivery/subscribed`` was not delivered yet.
        var announcesSubscription = false
        /// The position of the newest snapshot that was delivered or is pending; nil before the first one.
        var newest: SnapshotReceiver.Position?
        var snapshot: LarderSnapshot?
        /// The end of the subscription, which is delivered after its last snapshot; nil while the subscription is open.
        var end: Delivery?
        var consumer: Consumer?
        var isCancelled = false

        /// Returns the next delivery and removes it; nil for none. The end of the subscription stays.
        mutating func take() -> Delivery? {
            if hasTurn {
                hasTurn = false
                return .turn
            }
            if announcesSubscription {
                announcesSubscription = false
                return .subscribed
            }
            if isSubscribed, let snapshot {
                self.snapshot = nil
                return .snapshot(snapshot)
            }
            return end
        }
    }

    private let state = Mutex(State())

    /// Returns the stream of snapshots. Each element is the newest snapshot, or the end of a subscription after its
    /// last snapshot. The stream finishes when the task that awaits it is cancelled. It supports one consumer.
    ///
    /// The mailbox is the buffer of the stream, because the buffer of `AsyncStream` could not count the snapshots that
    /// newer ones replace.
    func deliveries() -> AsyncStream<Delivery> {
        AsyncStream(unfolding: { await self.next() }, onCancel: { self.cancel() })
    }

    private func next() async -> Delivery? {
        await withCheckedContinuation { consumer in
            let (delivery, isReady) = state.withLock { state -> (Delivery?, Bool) in
                if state.isCancelled { return (nil, true) }
                if let delivery = state.take() { return (delivery, true) }
                state.consumer = consumer
                return (nil, false)
            }
            if isReady { consumer.resume(returning: delivery) }
        }
    }

    private func cancel() {
        let consumer = state.withLock { state in
            state.isCancelled = true
            return state.consumer.take()
        }
        consumer?.resume(returning: nil)
    }

    /// The position of the newest snapshot that was delivered or is pending; nil before the first one.
    var position: SnapshotReceiver.Position? { state.withLock { $0.newest } }

    /// Prepares for a new subscription. Snapshots are delivered after ``subscribed()``.
    func begin() {
        state.withLock { state in
            state.hasTurn = false
            state.isSubscribed = false
            state.announcesSubscription = false
            state.end = nil
        }
    }

    func takeTurn() {
        change { $0.hasTurn = true }
    }

    func subscribed() {
        change { state in
            state.isSubscribed = true
            state.announcesSubscription = true
        }
    }

    /// Makes a snapshot the pending one if it is newer than all before it. A snapshot that was already pending is
    /// replaced and counts as skipped.
    func offer(_ snapshot: LarderSnapshot) {
        change { state in
            guard snapshot.position.isNewer(than: state.newest) else { return }
            state.newest = snapshot.position
            let replaced = state.snapshot.map { $0.skipped + 1 } ?? 0
            state.snapshot = replaced == 0 ? snapshot : snapshot.skipping(replaced)
        }
    }

    /// Delivers the end of the subscription after the pending snapshot.
    func end(_ end: Delivery) {
        change { $0.end = end }
    }

    /// Changes the state. Resumes the consumer if something can now be delivered.
    private func change(_ body: (inout State) -> Void) {
        let (consumer, delivery) = state.withLock { state -> (Consumer?, Delivery?) in
            body(&state)
            guard state.consumer != nil, let delivery = state.take() else { return (nil, nil) }
            return (state.consumer.take(), delivery)
        }
        consumer?.resume(returning: delivery)
    }
}

extension LarderSnapshot {
    fileprivate var position: SnapshotReceiver.Position {
        SnapshotReceiver.Position(revision: revision, epoch: epoch)
    }

    /// Returns the snapshot with a higher number of skipped ones.
    fileprivate func skipping(_ more: Int) -> LarderSnapshot {
        LarderSnapshot(
            value: value, revision: revision, epoch: epoch, state: state, skipped: skipped + more,
            namespace: namespace)
    }
}
