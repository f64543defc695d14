import CLinuxShims
import Dispatch
import Synchronization

/// Gives memory that nobody uses back to the system, a while after it was used: until then it serves what comes next,
/// without the page faults of new memory.
public final class SpareMemory: Sendable {
    /// The process's: it has one allocator. What is free for five seconds goes back, on a thread that serves nobody: to
    /// give back a hundred megabytes takes milliseconds.
    public static let shared = SpareMemory(
        later: { DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + 5, execute: $0) },
        giveBack: { larder_trim_memory() })

    private struct State {
        var bytes = 0
        var isExpected = false
    }

    /// Less is left to the allocator.
    private static let enough = 1 << 20

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

    /// Gives back what is free after a while, and again as long as more was freed meanwhile: that has not been free for long,
    /// and what goes with it may be let go of a little later.
    private func giveBackLater() {
        state.withLock { $0.bytes = 0 }
        later {
            let isAll = self.state.withLock { state in
                state.isExpected = state.bytes > 0
                return !state.isExpected
            }
            self.giveBack()
            if !isAll { self.giveBackLater() }
        }
    }
}
