import LarderConfigSources
import LarderConfigStorage
import LarderPlatform
import LarderUpstream
import Logging

/// What all namespaces of the agent share.
struct NamespaceEnvironment: Sendable {
    let epoch: String
    let stateDirectory: String
    let files: any FileSystem
    let blocking: BlockingWork
    let watcher: FileWatcher
    let fetcher: HTTPFetcher
    /// Tells this host from others. The times of its polls and its experiments follow from it.
    let hostIdentity: String
    let clock: any Clock<Duration>
    let wallClock: WallClock
    /// Raised at each publication of a namespace, and when one begins or ends.
    let changes: Signal
    /// The random numbers of delays.
    let generator: any RandomNumberGenerator & Sendable
    let logger: Logger

    var sources: SourceEnvironment {
        SourceEnvironment(
            fetcher: fetcher, watcher: watcher, blocking: blocking, hostIdentity: hostIdentity, clock: clock,
            generator: generator, logger: logger)
    }
}
