import Logging

/// Overrides that end by themselves: when their time of day has come, or when they have lasted as long as they were to
/// last, whichever is first. The second counts where the time of day is set back.
extension ConfigStore {
    /// Sees to it that the next override which ends is noticed, without any client's help.
    func armExpiry() {
        let ends = changes.isStopping ? [] : layers.override.expiries
        if ends.isEmpty, expiryTimer == nil, lifetimes.isEmpty { return }
        let (now, lived) = (wallClock.now, uptime().milliseconds)
        lifetimes = lifetimes.filter { ends.contains($0.key) }
        for end in ends where lifetimes[end] == nil { lifetimes[end] = lived + max(0, end - now) }
        let next = ends.min().flatMap { end in lifetimes.values.min().map { NextExpiry(end: end, uptime: $0) } }
        wait(for: next)
    }

    /// The same after these changes to the overrides, which takes no longer the more overrides end. For what they removed the
    /// timer may go off in vain, once.
    func armExpiry(after operations: [JournalRecord.Operation]) {
        var added: [Int] = []
        for operation in operations {
            switch operation {
            case .set(let entry): if let end = entry.expiresAt { added.append(end) }
            case .rollback: return armExpiry()
            case .unset, .expire, .remote, .dropRemote, .release, .experiment: continue
            }
        }
        if added.isEmpty || changes.isStopping { return }
        let (now, lived) = (wallClock.now, uptime().milliseconds)
        var next = expiryTimer?.next
        for end in added {
            let lifetime = lived + max(0, end - now)
            lifetimes[end] = lifetime
            next = NextExpiry(end: min(next?.end ?? end, end), uptime: min(next?.uptime ?? lifetime, lifetime))
        }
        // Of those that were replaced since, too much is not kept.
        if lifetimes.count > 2 * layers.override.ending + Self.fewLifetimes { return armExpiry() }
        wait(for: next)
    }

    private static let fewLifetimes = 64

    private func wait(for next: NextExpiry?) {
        if next == expiryTimer?.next { return }
        expiryTimer?.task.cancel()
        expiryTimer = next.map { next in (next, Task { await self.wait(until: next) }) }
    }

    private func wait(until next: NextExpiry) async {
        while true {
            let rest = min(next.end - wallClock.now, next.uptime - uptime().milliseconds)
            if rest <= 0 { break }
            // The time of day may be set while this waits, so that it is looked at again now and then.
            do { try await clock.sleep(for: .milliseconds(min(rest, 60_000))) } catch { return }
        }
        if Task.isCancelled { return }
        expiryTimer = nil
        do {
            _ = try await expireOverrides()
        } catch {
            logger.error(
                "overrides that ended could not be removed; it is tried again in a minute",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
            try? await clock.sleep(for: .seconds(60))
        }
        armExpiry()
    }

    /// Ends the overrides whose time has come.
    func expireOverrides() async throws(ConfigError) -> Commit {
        let lived = uptime().milliseconds
        return try await commit(.expireOverrides(ended: Set(lifetimes.lazy.filter { $0.value <= lived }.map(\.key))))
    }

    /// What is waited for: the earliest time of day, and the earliest moment by a clock that nobody sets, in milliseconds.
    struct NextExpiry: Equatable {
        var end: Int
        var uptime: Int
    }
}
