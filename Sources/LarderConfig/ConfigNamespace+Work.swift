import LarderEncoding
import LarderPlatform
import LarderUpstream

extension ConfigNamespace {
    /// What the namespace has to do within a time, in words that follow its name; nil where that is nothing, and it would
    /// lose nothing if the agent ended.
    ///
    /// A source that is followed, over a connection or on the disk, always has something: its next change is to be seen.
    /// One that is polled has, if its turn comes within the time, or ever would: an interval that is no longer than that.
    public func work(within time: Duration) async -> String? {
        let (configuration, now) = (configuration, store.wallClock.now)
        switch configuration.remote {
        case nil: break
        case .file(let file): return "follows \(file.path)"
        case .sse, .etcd: return "follows \(configuration.source?.location ?? "its source")"
        case .http(let http):
            if http.longPoll != nil { return "waits for changes of \(configuration.source?.location ?? "its source")" }
            if http.interval <= time { return "polls its source" }
            guard let next = publication.status.upstream?.nextAttemptAt, next - now > time.milliseconds else {
                return "is about to poll its source"
            }
        }
        if await refresher.isAtWork { return "is being refreshed" }
        return await store.work(within: time)
    }
}

extension ConfigStore {
    /// What the store itself has to do within a time.
    fileprivate func work(within time: Duration) -> String? {
        if changes.isAtWork { return "is being changed" }
        if writer.isAtWork { return "is being written to the disk" }
        let ends = layers.override.expiringEntries.compactMap(\.expiresAt)
        if let next = ends.min(), next - wallClock.now <= time.milliseconds {
            return "has an override that ends soon"
        }
        return nil
    }
}
