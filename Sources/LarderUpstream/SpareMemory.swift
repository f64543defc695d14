import CLinuxShims
import Dispatch
import Synchronization

/// Gives memory that nobody uses back to the system, a while after it was used: until then it serves what comes next,
/// without the page faults of new memory.
public final class SpareMemory: Sendable {
    /// The process's: it has one allocator. It gives back after five seconds without much that was freed, on a thread that
    /// serves nobody: to give back a hundred megabytes takes milliseconds.
    public static let shared = SpareMemory(
        later: { DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + 5, execute: $0) },
        giveBack: { larder_trim_memory() })

    private struct State {
        /// What was freed since the last look.
        var bytes = 0
        var isExpected = false
        /// Looks since memory was given back that found it in use.
        var looks = 0
    }

    /// Less is left to the allocator.
    private static let enough = 1 << 20
    /// How often memory that comes and goes all the time is left alone: new pages would cost more than those that are there.
    private static let mostLooks = 12

    private let later: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let giveBack: @Sendable () -> Void
    private let state = Mutex(State())

    /// Memory that is given back in some way.
    /// - Parameters:
    ///   - later: has something done after a while
    ///   - giveBack: gives back what is free
    public init(
        later: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void, giveBack: @escaping @Sendable () -> Void
    ) {
        (self.later, self.giveBack) = (later, giveBack)
    }

    /// Tells that something large is not needed any more.
    /// - Parameter bytes: its size
    public func freed(_ bytes: Int) {
        let isFirst = state.withLock { state in
            state.bytes += bytes
            guard state.bytes >= Self.enough, !state.isExpected else { return false }
            state.isExpected = true
            return true
        }
        if isFirst { giveBackLater() }
    }

    /// Looks after a while whether much was freed meanwhile. If so, that is needed again and again, and is looked at once more,
    /// though not for ever; if not, what is free is given back, and the little that was freed meanwhile, or what goes with it
    /// and may be let go of a little later, after another while.
    private func giveBackLater() {
        state.withLock { $0.bytes = 0 }
        later {
            let (isCalm, isAll) = self.state.withLock { state in
                state.looks += 1
                let isCalm = state.bytes < Self.enough || state.looks > Self.mostLooks
                if isCalm { state.looks = 0 }
                state.isExpected = state.bytes > 0
                return (isCalm, !state.isExpected)
            }
            if isCalm { self.giveBack() }
            if !isAll { self.giveBackLater() }
        }
    }
}
