import Logging

/// Overrides that end by themselves.
extension ConfigStore {
    /// Sees to it that the next override which ends is noticed, without any client's help.
    func armExpiry() {
        let next = isStopping ? nil : layers.override.nextExpiry
        if next == expiryTimer?.time { return }
        expiryTimer?.task.cancel()
        expiryTimer = next.map { time in (time, Task { await self.waitForExpiry(at: time) }) }
    }

    private func waitForExpiry(at time: Int) async {
        // The time of day may be set while this waits, so that it is looked at again now and then.
        while wallClock.now < time {
            let rest = Duration.milliseconds(min(time - wallClock.now, 60_000))
            do { try await clock.sleep(for: rest) } catch { return }
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
}
