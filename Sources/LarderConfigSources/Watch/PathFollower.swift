import Glibc
import Logging
import LarderPlatform

/// Watches one path for one stream. After an event it waits for the end of the burst, resolves the path again, and
/// yields an element.
struct PathFollower: Sendable {
    let path: String
    let inotify: Inotify
    let clock: any Clock<Duration>
    let logger: Logger?
    let problem: FileWatcher.Problem
    let output: AsyncStream<Void>.Continuation

    /// Runs until it is cancelled or the watcher stops.
    func run() async {
        let (signal, wakeUps) = Signal.makeStream()
        let subscriber = inotify.subscribe(signal)
        defer {
            inotify.unsubscribe(subscriber)
            output.finish()
        }
        await withTaskGroup { group in
            group.addTask { await follow(signal, wakeUps, subscriber) }
            group.addTask { await poll(signal) }
            await group.next()
            group.cancelAll()
        }
    }

    private func follow(_ signal: Signal, _ wakeUps: AsyncStream<Void>, _ subscriber: Int) async {
        var retry: Task<Void, Never>?
        defer { retry?.cancel() }
        signal.take()
        retry = survey(subscriber, signal)
        output.yield()
        for await _ in wakeUps {
            // The events that caused this wake-up may belong to the previous burst, which has been handled already.
            guard signal.take() else { continue }
            retry?.cancel()
            await settle(signal)
            if Task.isCancelled { return }
            retry = survey(subscriber, signal)
            output.yield()
        }
    }

    private func poll(_ signal: Signal) async {
        while (try? await clock.sleep(for: FileWatcher.Timing.poll)) != nil { signal.raise() }
    }

    private func settle(_ signal: Signal) async {
        for _ in 0..<FileWatcher.Timing.maxBurst {
            guard (try? await clock.sleep(for: FileWatcher.Timing.settle)) != nil else { return }
            if !signal.take() { return }
        }
    }

    /// Sets the watches along the current path. New watches are set before old ones are removed.
    /// - Returns: a task that raises the signal when refused watches should be requested again; nil if all were granted
    private func survey(_ subscriber: Int, _ signal: Signal) -> Task<Void, Never>? {
        let unavailability = inotify.unavailability()
        var survey = PathSurvey(inotify, subscriber: subscriber)
        survey.run(path)
        inotify.keepOnly(survey.interests, for: subscriber)
        report(unavailability.map(queueProblem) ?? survey.refusal.map(watchProblem))
        guard problem.message != nil else {
            if survey.isBlind {
                logger?.debug(
                    "a part of the path cannot be watched and is polled instead", metadata: ["path": "\(path)"])
            }
            return nil
        }
        let clock = clock
        return Task {
            try? await clock.sleep(for: FileWatcher.Timing.retry)
            if !Task.isCancelled { signal.raise() }
        }
    }

    private func report(_ message: String?) {
        let previous = problem.message
        problem.message = message
        if let message, message != previous {
            logger?.warning("\(path): \(message)", metadata: ["path": "\(path)"])
        } else if message == nil, previous != nil {
            logger?.notice("\(path): changes are watched again", metadata: ["path": "\(path)"])
        }
    }

    private func queueProblem(_ number: Int32) -> String {
        switch number {
        case EMFILE:
            unwatched("this user has no inotify instances left", "raise fs.inotify.max_user_instances, see sysctl(8)")
        case ENFILE: unwatched("the system has no open files left", "raise fs.file-max, see sysctl(8)")
        default: unwatched("inotify is not available: \(String(cString: strerror(number)))", "see inotify(7)")
        }
    }

    private func watchProblem(_ number: Int32) -> String {
        number == ENOSPC
            ? unwatched("this user has no inotify watches left", "raise fs.inotify.max_user_watches, see sysctl(8)")
            : unwatched(
                "the kernel refused an inotify watch: \(String(cString: strerror(number)))",
                "stop other programs to free memory")
    }

    private func unwatched(_ cause: String, _ advice: String) -> String {
        "changes are not watched: \(cause); the files are read every \(FileWatcher.Timing.retry) instead; \(advice)"
    }
}
