import LarderConfigModel
import Synchronization

/// The inside of ``ConfigPublication/snapshots()``: holds the newest snapshot until its one consumer takes it.
///
/// `AsyncStream` has a buffer of its own, but the standard library's code is not specialised: with it a snapshot takes 12,300
/// instructions from the publication to its consumer, with this slot 6,300.
final class SnapshotSlot: Sendable {
    private typealias Consumer = UnsafeContinuation<ConfigSnapshot?, Never>

    private struct State {
        var snapshot: ConfigSnapshot?
        var consumer: Consumer?
        var isFinished = false
    }

    private let state: Mutex<State>

    /// - Parameter isFinished: whether no other snapshot follows.
    init(_ snapshot: ConfigSnapshot, isFinished: Bool) {
        state = Mutex(State(snapshot: snapshot, isFinished: isFinished))
    }

    /// Hands a snapshot to the consumer. It replaces a snapshot that was not taken.
    func put(_ snapshot: ConfigSnapshot) {
        let consumer = state.withLock { state -> Consumer? in
            if state.isFinished { return nil }
            let consumer = state.consumer.take()
            if consumer == nil { state.snapshot = snapshot }
            return consumer
        }
        // Outside the lock: an executor may run the consumer in place, which asks for the next snapshot.
        consumer?.resume(returning: snapshot)
    }

    /// The consumer gets nil after the snapshot that it has not taken.
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
