import Foundation
import TestSupport

/// Runs tasks and actors one job at a time, on one thread, in an order that a seed determines. Runs with the same seed
/// are identical, and each seed gives another interleaving. Time is a ``ManualClock`` that advances when no job is
/// left.
///
/// A task that starts on the simulation's thread stays there: each job that this thread enqueues goes into the queue of
/// this object instead of the queue of the Swift runtime. Code in a simulation must not wait for another thread.
final class SimulatedRuntime: SerialExecutor, @unchecked Sendable {
    // Unchecked, because only the simulation's thread accesses the properties below. An executor must be `Sendable`.

    private var jobs: [UnownedJob] = []
    private var generator: SeededGenerator
    /// The clock of the simulation.
    let clock = ManualClock()

    private init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// Runs a simulation until no job is left and no task sleeps, or until `shouldContinue` returns false.
    ///
    /// - Parameters:
    ///   - begin: creates the simulated world and starts its tasks
    ///   - shouldContinue: called after each job
    /// - Returns: the world at the end
    static func run<World: Sendable>(
        seed: UInt64, _ begin: @escaping @Sendable (SimulatedRuntime) -> World,
        while shouldContinue: @escaping @Sendable (World) -> Bool
    ) async -> World {
        EnqueueHook.install()
        return await withCheckedContinuation { continuation in
            let thread = Thread {
                let runtime = SimulatedRuntime(seed: seed)
                EnqueueHook.current = runtime
                let world = begin(runtime)
                runtime.run { shouldContinue(world) }
                EnqueueHook.current = nil
                continuation.resume(returning: world)
            }
            thread.stackSize = 8 << 20
            thread.start()
        }
    }

    private func run(afterEachJob shouldContinue: () -> Bool) {
        while true {
            while !jobs.isEmpty {
                let chosen = Int.random(in: 0..<jobs.count, using: &generator)
                jobs.swapAt(chosen, jobs.count - 1)
                jobs.removeLast().runSynchronously(on: asUnownedSerialExecutor())
                if !shouldContinue() { return }
            }
            guard let next = clock.nextDeadline else { return }
            clock.advance(by: clock.now.duration(to: next))
        }
    }

    /// Whether the caller runs in a simulation.
    static var isRunning: Bool { EnqueueHook.current != nil }

    func enqueue(_ job: UnownedJob) { jobs.append(job) }
}

/// The Swift runtime's hook for enqueued jobs. Jobs from a simulation's thread go to the simulation, and all others to
/// their usual executor. The hook stays installed until the process ends.
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
            // The simulation is not retained here. A local variable on the thread keeps it alive.
            pthread_setspecific(key, newValue.map { Unmanaged.passUnretained($0).toOpaque() })
        }
    }

    static func install() { _ = isInstalled }

    private static let isInstalled: Bool = {
        guard let symbol = dlsym(dlopen(nil, RTLD_LAZY), "swift_task_enqueueGlobal_hook") else {
            preconditionFailure("this Swift runtime has no hook for enqueued jobs")
        }
        symbol.assumingMemoryBound(to: Hook?.self).pointee = { job, original in
            if let runtime = EnqueueHook.current { runtime.enqueue(job) } else { original(job) }
        }
        return true
    }()
}
