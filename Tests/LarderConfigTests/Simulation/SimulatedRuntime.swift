import Foundation
import TestSupport

/// Runs tasks and actors one job at a time, on one thread, in an order that a seed decides: every run with the same seed is
/// the same, and every seed tries another interleaving. Time is a ``ManualClock`` that moves on when nothing is left to do.
///
/// What begins on the simulation's thread stays there: each job that is made runnable on it goes into this object's queue
/// instead of the runtime's. Nothing in a simulation may wait for another thread.
final class SimulatedRuntime: SerialExecutor, @unchecked Sendable {
    // Unchecked, because only the simulation's thread touches what follows; nothing safer can be an executor.

    private var jobs: [UnownedJob] = []
    private var generator: SeededGenerator
    /// The simulation's time.
    let clock = ManualClock()

    private init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// Runs a simulation until no job is left and nobody sleeps, or it is told to end.
    ///
    /// - Parameters:
    ///   - begin: makes the world that is simulated, and starts its tasks
    ///   - goesOn: called after each job; whether to go on
    /// - Returns: the world as it was at the end
    static func run<World: Sendable>(
        seed: UInt64, _ begin: @escaping @Sendable (SimulatedRuntime) -> World,
        while goesOn: @escaping @Sendable (World) -> Bool
    ) async -> World {
        EnqueueHook.install()
        return await withCheckedContinuation { continuation in
            let thread = Thread {
                let runtime = SimulatedRuntime(seed: seed)
                EnqueueHook.current = runtime
                let world = begin(runtime)
                runtime.run { goesOn(world) }
                EnqueueHook.current = nil
                continuation.resume(returning: world)
            }
            thread.stackSize = 8 << 20
            thread.start()
        }
    }

    private func run(afterEachJob goesOn: () -> Bool) {
        while true {
            while !jobs.isEmpty {
                let chosen = Int.random(in: 0..<jobs.count, using: &generator)
                jobs.swapAt(chosen, jobs.count - 1)
                jobs.removeLast().runSynchronously(on: asUnownedSerialExecutor())
                if !goesOn() { return }
            }
            guard let next = clock.nextDeadline else { return }
            clock.advance(by: clock.now.duration(to: next))
        }
    }

    /// Whether the caller runs in a simulation.
    static var isRunning: Bool { EnqueueHook.current != nil }

    func enqueue(_ job: UnownedJob) { jobs.append(job) }
}

/// The Swift runtime's hook for jobs that become runnable: those of a thread that simulates go to its simulation, all
/// others where they always go. It stays for the life of the process.
private enum EnqueueHook {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// The simulation of this thread.
    static var current: SimulatedRuntime? {
        get {
            pthread_getspecific(key).map { Unmanaged<SimulatedRuntime>.fromOpaque($0).takeUnretainedValue() }
        }
        set {
            // The thread's own variable keeps it alive.
            pthread_setspecific(key, newValue.map { Unmanaged.passUnretained($0).toOpaque() })
        }
    }

    static func install() { _ = isInstalled }

    private static let isInstalled: Bool = {
        guard let symbol = dlsym(dlopen(nil, RTLD_LAZY), "swift_task_enqueueGlobal_hook") else {
            preconditionFailure("this Swift runtime has no hook for its jobs")
        }
        symbol.assumingMemoryBound(to: Hook?.self).pointee = { job, original in
            if let runtime = EnqueueHook.current { runtime.enqueue(job) } else { original(job) }
        }
        return true
    }()
}
