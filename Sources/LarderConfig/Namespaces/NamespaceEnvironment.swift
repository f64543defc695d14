import LarderConfigSources
import LarderConfigStorage
import LarderPlatform
import LarderUpstream
import Logging

/// The environment that all namespaces share.
struct NamespaceEnvironment: Sendable {
    let epoch: String
    let stateDirectory: String
    let files: any FileSystem
    let blocking: BlockingWork
    let watcher: FileWatcher
    let fetcher: HTTPFetcher
    /// Identifies this host. The identity determines when the host polls and in which experiments it takes part.
    let hostIdentity: String
    let clock: any Clock<Duration>
    let wallClock: WallClock
    /// The time since the host started, including suspended time.
    let hostUptime: @Sendable () -> Duration
    /// The signal that is raised at each publication of a namespace, and when a namespace starts or ends.
    let changes: Signal
    /// Provides random delays.
    let generator: any RandomNumberGenerator & Sendable
    let logger: Logger

    var sources: SourceEnvironment {
        SourceEnvironment(
            fetcher: fetcher, watcher: watcher, blocking: blocking, hostIdentity: hostIdentity, clock: clock,
            generator: generator, logger: logger)
    }
}
