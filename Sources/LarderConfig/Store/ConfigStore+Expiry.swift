import LarderConfigModel
import LarderConfigStorage
import LarderEncoding
import LarderPlatform
import Logging

/// Overrides that end by themselves.
extension ConfigStore {
    private static let fewStale = 64
    private static let pauseAfterFailure: Duration = .seconds(60)

    private var moment: ExpiryQueue.Moment {
        ExpiryQueue.Moment(timeOfDay: wallClock.now, uptime: uptime().milliseconds)
    }

    /// Sets the timer for the next override that expires. After a failure it waits for the next attempt instead.
    func armExpiry() {
        expiry.dropStale(comparedTo: layers.override)
        guard !changes.isStopping, let next = expiry.next else { return wait(for: nil) }
        wait(for: expiryRetry ?? next)
    }

    /// Queues the overrides that these changes have added, and sets the timer.
    func armExpiry(after operations: [LayerOperation]) {
        var hasAdded = false
        for operation in operations {
            switch operation {
            case .set(let entry):
                guard let end = entry.expiresAt else { continue }
                expiry.insert(ExpiringOverride(path: entry.path, expiresAt: end), now: moment)
                hasAdded = true
            case .rollback:
                expiry.rebuild(from: layers.override, now: moment)
                return armExpiry()
            case .unset, .expire, .remote, .dropRemote, .release, .experiment: continue
            }
        }
        guard hasAdded else { return }
        if expiry.count > 2 * layers.override.expiring + Self.fewStale {
            expiry.rebuild(from: layers.override, now: moment)
        }
        armExpiry()
    }

    private func wait(for next: ExpiryQueue.Moment?) {
        if next == expiryTimer?.next { return }
        expiryTimer?.task.cancel()
        expiryTimer = next.map { next in (next, Task { await self.wait(until: next) }) }
    }

    private func wait(until next: ExpiryQueue.Moment) async {
        while true {
            let now = moment
            let rest = min(next.timeOfDay - now.timeOfDay, next.uptime - now.uptime)
            if rest <= 0 { break }
            // The time of day may be set meanwhile, so that it is read again each minute.
            do { try await clock.sleep(for: .milliseconds(min(rest, 60_000))) } catch { return }
        }
        if Task.isCancelled { return }
        expiryTimer = nil
        expiryRetry = nil
        do {
            try await expireOverrides()
        } catch {
            logger.error(
                "cannot remove expired overrides; the next attempt is in a minute",
                metadata: ["namespace": "\(archive.namespace)", "error": "\(error)"])
            expiryRetry = moment.advanced(by: Self.pauseAfterFailure)
        }
        armExpiry()
    }

    /// Ends the overrides whose time has come.
    func expireOverrides() async throws(ConfigError) {
        let now = moment
        let expired = expiry.popExpired(at: now)
        if expired.isEmpty { return }
        do {
            _ = try await commit(.expireOverrides(expired))
        } catch {
            for override in expired { expiry.insert(override, uptime: now.uptime) }
            // Others were inserted twice, since only one of the two times had come.
            expiry.rebuild(from: layers.override, now: now)
            throw error
        }
    }
}
