package import LarderConfigModel
import Synchronization

/// The publication for subscribers that asked for `canary`. It shows the candidate of a rollout. Without a rollout, it
/// shows what the main publication shows.
///
/// The second ``ConfigPublication`` is created for the first canary, so that other namespaces do not pay for it.
package final class CanaryPublication: Sendable {
    private struct State {
        var rollout: CurrentRollout?
        /// The publication; nil before the first canary subscribes.
        var publication: ConfigPublication?
        var observer: AsyncStream<Void>.Continuation?
    }

    private let main: ConfigPublication
    /// Whether there has been a canary or a rollout. Until then ``follow(_:_:status:)`` has no effect.
    private let isUsed = Atomic(false)
    private let state = Mutex(State())

    init(_ main: ConfigPublication) { self.main = main }

    /// The rollout in progress; nil for none.
    package var rollout: CurrentRollout? {
        isUsed.load(ordering: .acquiring) ? state.withLock { $0.rollout } : nil
    }

    /// The publication for canaries.
    package func publication() -> ConfigPublication {
        // The store publishes to `main` before it reads `isUsed`. Either it finds `isUsed` set and publishes here, too,
        // or `main` has its snapshot already when it is copied.
        isUsed.store(true, ordering: .releasing)
        let publication = state.withLock { state in
            if let publication = state.publication { return publication }
            let publication = main.copy(showing: state.rollout?.candidate)
            state.publication = publication
            return publication
        }
        if main.current.hasEnded { publication.end() }
        return publication
    }

    /// Yields an element now and whenever a rollout begins, changes or ends. A later call ends the stream of an earlier
    /// one.
    func changes() -> AsyncStream<Void> {
        let (changes, observer) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let previous = state.withLock { state in
            defer { state.observer = observer }
            return state.observer
        }
        previous?.finish()
        observer.yield()
        return changes
    }

    /// Shows the candidate of a rollout or, without one, a snapshot of the main publication. Called only by the store,
    /// after each publication and each change of the status.
    func follow(_ snapshot: ConfigSnapshot, _ rollout: CurrentRollout?, status: @autoclosure () -> StatusRecord) {
        guard rollout != nil || isUsed.load(ordering: .acquiring) else { return }
        isUsed.store(true, ordering: .releasing)
        let (publication, observer) = state.withLock { state in
            let isSame =
                state.rollout?.candidate === rollout?.candidate && state.rollout?.document == rollout?.document
                && state.rollout?.since == rollout?.since
            state.rollout = rollout
            return (state.publication, isSame ? nil : state.observer)
        }
        if let publication {
            let shown = rollout?.candidate ?? snapshot
            // If a candidate could not be shown, the snapshot may be older than the previous candidate.
            if shown.revision > publication.current.snapshot.revision {
                publication.publish(shown, status: status())
            } else {
                publication.update(status())
            }
        }
        observer?.yield()
    }

    /// Finishes the streams, because the namespace was removed from the settings.
    func end() {
        state.withLock { $0.publication }?.end()
    }
}
