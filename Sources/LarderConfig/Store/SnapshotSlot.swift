import LarderConfigModel
import Synchronization

/// The buffer of ``ConfigPublication/snapshots()``. It retains the newest snapshot until its only consumer takes it.
///
/// `AsyncStream` has a buffer too, but its code in the standard library is not specialized: delivering a snapshot takes
/// 12,300 instructions with it, and 6,300 with this slot.
final class SnapshotSlot: Sendable {
    private typealias Consumer = UnsafeContinuation<ConfigSnapshot?, Never>

    private struct State {
        var snapshot: ConfigSnapshot?
        var consumer: Consumer?
        var isFinished = false
    }

    private let state: Mutex<State>

    /// - Parameter isFinished: whether no other snapshot follows
    init(_ snapshot: ConfigSnapshot, isFinished: Bool) {
        state = Mutex(State(snapshot: snapshot, isFinished: isFinished))
    }

    /// Passes a snapshot to the consumer. The new snapshot replaces one that the consumer has not taken.
    func put(_ snapshot: ConfigSnapshot) {
        let consumer = state.withLock { state -> Consumer? in
            if state.isFinished { return nil }
            let consumer = state.consumer.take()
            if consumer == nil { state.snapshot = snapshot }
            return consumer
        }
        // The consumer is resumed outside the lock: an executor may run the consumer synchronously, and the consumer
        // takes the lock when it asks for the next snapshot.
        consumer?.resume(returning: snapshot)
    }

    /// Finishes the stream. The consumer still gets a snapshot that it has not taken, and then nil.
    func finish() {
        let consumer = state.withLock { state in
            state.isFinished = true
            return state.consumer.take()
        }
        consumer?.resume(returning: nil)
    }

    /// Waits for a snapshot; nil after the last one.
    func next() async -> ConfigSnapshot? {
        await withUnsafeContinuation { consumer in
            let (snapshot, isReady) = state.withLock { state -> (ConfigSnapshot?, Bool) in
                precondition(state.consumer == nil, "a stream of snapshots has one consumer")
                if let snapshot = state.snapshot.take() { return (snapshot, true) }
                if !state.isFinished { state.consumer = consumer }
                return (nil, state.isFinished)
            }
            if isReady { consumer.resume(returning: snapshot) }
        }
    }
}
