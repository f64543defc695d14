package import LarderPlatform
package import LarderUpstream
package import Logging

/// The shared resources of all sources of the agent.
package struct SourceEnvironment: Sendable {
    let fetcher: HTTPFetcher
    package let watcher: FileWatcher
    package let blocking: BlockingThreadPool
    /// Identifies this host. The times at which the host polls and reconnects are derived from this text.
    package let hostIdentity: String
    package let clock: any Clock<Duration>
    /// The random number generator for delays.
    package let generator: any RandomNumberGenerator & Sendable
    package let logger: Logger

    package init(
        fetcher: HTTPFetcher, watcher: FileWatcher, blocking: BlockingThreadPool, hostIdentity: String,
        clock: any Clock<Duration>, generator: any RandomNumberGenerator & Sendable, logger: Logger
    ) {
        self.fetcher = fetcher
        self.watcher = watcher
        self.blocking = blocking
        self.hostIdentity = hostIdentity
        self.clock = clock
        self.generator = generator
        self.logger = logger
    }

    /// Creates the source that the settings describe.
    /// - Parameter report: returns what a poll reports if the settings request it
    package func source(
        _ settings: RemoteSourceSettings, report: @escaping @Sendable () -> PollReport?
    ) -> any ConfigSource {
        switch settings {
        case .http(let http):
            return HTTPSource(fetcher: fetcher, configuration: http, blocking: blocking, report: report)
        case .sse(let sse):
            return SSESource(
                configuration: sse, plan: sse.reconnectPlan(hostIdentity: hostIdentity), fetcher: fetcher,
                blocking: blocking, clock: clock, generator: generator, report: report)
        case .file(let file): return FileSource(configuration: file, watcher: watcher, blocking: blocking)
        case .etcd(let etcd):
            let client = EtcdClient(
                etcd, fetcher: fetcher, blocking: blocking, startingAt: etcd.firstEndpoint(hostIdentity: hostIdentity),
                clock: clock)
            return EtcdSource(
                etcd, client: client, plan: etcd.reconnectPlan(hostIdentity: hostIdentity), clock: clock,
                generator: generator, logger: logger)
        }
    }
}
