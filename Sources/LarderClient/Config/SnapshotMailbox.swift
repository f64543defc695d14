import LarderProtocol
import Synchronization

/// Holds the newest snapshot that a subscription brought until the consumer of ``deliveries()`` takes it. The connection puts the
/// snapshots in. A mailbox outlives a connection: the next subscription continues with it.
final class SnapshotMailbox: EventReceiver {
    /// An element of the stream.
    enum Delivery: Sendable {
        case snapshot(ConfigSnapshot)
        /// The subscription has ended.
        case interruption(LarderClientError)
        /// A change of the settings has ended the subscription. The next attempt shows what is in force.
        case withdrawal
    }

    private typealias Consumer = CheckedContinuation<Delivery?, Never>

    private struct State {
        var receiver: SnapshotReceiver
        /// How the subscription ended; nil while it is open.
        var end: Delivery?
        var consumer: Consumer?
        var isCancelled = false

        /// The newest snapshot, or the end of the subscription once every snapshot was taken; nil if neither has come.
        mutating func take() -> Delivery? { receiver.take().map(Delivery.snapshot) ?? end }
    }

    private let state: Mutex<State>

    init(mode: ConfigSubscribe.Mode) {
        state = Mutex(State(receiver: SnapshotReceiver(mode: mode)))
    }

    /// The newest snapshot each time, and the end of each subscription behind its last snapshot. The stream finishes when the
    /// task that awaits it is cancelled. It has one consumer.
    ///
    /// The mailbox is the buffer of the stream, because a snapshot that replaces another one counts it as skipped.
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

    /// Prepares for a new subscription.
    /// - Returns: the position that it resumes from; nil for a full snapshot.
    func begin() -> SnapshotReceiver.Position? {
        state.withLock { state in
            state.receiver.begin()
            state.end = nil
            return state.receiver.resumption
        }
    }

    /// Takes an event from the connection.
    /// - Throws: `protocolViolation`, after which the connection is of no use.
    func receive(_ event: ConfigEvent) throws(LarderClientError) {
        try change { state throws(LarderClientError) in try state.receiver.receive(event) }
    }

    /// Ends the subscription because of an error.
    func interrupt(_ error: LarderClientError) {
        change { $0.end = .interruption(error) }
    }

    /// Ends the subscription because of a change of the settings.
    func withdraw() {
        change { $0.end = .withdrawal }
    }

    /// Changes the state and resumes the consumer if there is something for it.
    private func change<E: Error>(_ body: (inout State) throws(E) -> Void) throws(E) {
        let (failure, consumer, delivery) = state.withLock { state -> (E?, Consumer?, Delivery?) in
            do throws(E) {
                try body(&state)
            } catch {
                return (error, nil, nil)
            }
            guard state.consumer != nil, let delivery = state.take() else { return (nil, nil, nil) }
            return (nil, state.consumer.take(), delivery)
        }
        if let failure { throw failure }
        consumer?.resume(returning: delivery)
    }
}
