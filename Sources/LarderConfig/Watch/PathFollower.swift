import Glibc
internal import LarderUpstream
internal import Logging

/// Follows one path for one stream: waits for a signal, lets the burst settle, goes the way anew, and says "read now".
struct PathFollower: Sendable {
    let path: String
    let inotify: Inotify
    let clock: any Clock<Duration>
    let timing: FileWatcher.Timing
    let logger: Logger?
    let output: AsyncStream<Void>.Continuation

    /// Runs until it is cancelled or the watcher stops.
    func run() async {
        let (signal, wakeUps) = Signal.makeStream()
        let subscriber = inotify.subscribe(signal)
        defer {
            inotify.unsubscribe(subscriber)
            output.finish()
        }
        if let number = inotify.unavailable {
            logger?.warning(
                "files cannot be watched and are polled instead",
                metadata: ["path": "\(path)", "error": "\(String(cString: strerror(number)))"])
        }
        await withTaskGroup { group in
            group.addTask { await follow(signal, wakeUps, subscriber) }
            group.addTask { await poll(signal) }
            await group.next()
            group.cancelAll()
        }
    }

    private func follow(_ signal: Signal, _ wakeUps: AsyncStream<Void>, _ subscriber: Int) async {
        signal.take()
        survey(subscriber)
        output.yield()
        for await _ in wakeUps {
            // The wake-up may be for events that were taken while earlier ones settled.
            guard signal.take() else { continue }
            await settle(signal)
            if Task.isCancelled { return }
            survey(subscriber)
            output.yield()
        }
    }

    private func poll(_ signal: Signal) async {
        while (try? await clock.sleep(for: timing.poll)) != nil { signal.raise() }
    }

    private func settle(_ signal: Signal) async {
        for _ in 0..<timing.longestBurst {
            guard (try? await clock.sleep(for: timing.settle)) != nil else { return }
            if !signal.take() { return }
        }
    }

    /// Sets the watches for the way as it is now, the new ones before the old ones go.
    private func survey(_ subscriber: Int) {
        var survey = PathSurvey(inotify, subscriber: subscriber)
        survey.run(path)
        inotify.keepOnly(survey.interests, for: subscriber)
        if survey.isBlind {
            logger?.debug("a part of the way cannot be watched and is polled", metadata: ["path": "\(path)"])
        }
    }
}
