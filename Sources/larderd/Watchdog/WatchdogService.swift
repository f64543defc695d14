import LarderConfig
import LarderImages
import LarderServer
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import LarderSystemd
#if DEBUG
    import UnixSignals
#endif

/// Notifies the watchdog of the service manager as long as all event loops, the store and the refresher of each
/// namespace, and the image cache respond.
struct WatchdogService: AgentService {
    let interval: Duration
    let eventLoops: [any EventLoop]
    let namespaces: ConfigNamespaces
    let images: ImageService?
    let logger: Logger

    func run() async {
        // The thread of this event loop is not stopped, because late responses to probes need the event loop. The
        // thread ends with the process.
        let eventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()
        let feeder = NIOLoopBoundBox.makeBoxSendingValue(makeFeeder(on: eventLoop), eventLoop: eventLoop)
        eventLoop.execute { feeder.value.start() }
        try? await gracefulShutdown()
        eventLoop.execute { feeder.value.stop() }
    }

    private func makeFeeder(on eventLoop: any EventLoop) -> sending WatchdogFeeder {
        let service = self
        let notifier = ServiceNotifier { [logger] error in
            logger.warning("cannot notify the watchdog", metadata: ["error": "\(error)"])
        }
        return WatchdogFeeder(
            on: eventLoop, interval: TimeAmount(interval), probes: { service.probes },
            feed: { try notifier.watchdog() }, logger: logger)
    }

    private var probes: [Probe] {
        var probes = eventLoops.enumerated().map { number, eventLoop in
            Probe(name: "event loop \(number + 1)") { responded in eventLoop.execute(responded) }
        }
        for namespace in namespaces.all {
            let (store, refresher) = (namespace.store, namespace.refresher)
            probes.append(Probe(name: "the store of namespace \(namespace.name)") { await store.probe() })
            probes.append(Probe(name: "the refresher of namespace \(namespace.name)") { await refresher.probe() })
        }
        if let cache = images?.cache { probes.append(Probe(name: "the image cache") { await cache.probe() }) }
        return probes
    }
}

#if DEBUG
    /// On SIGUSR2, blocks the store of the namespace `default` indefinitely, to test the watchdog. Release builds do
    /// not contain it.
    struct DeadlockSwitch: AgentService {
        let namespaces: ConfigNamespaces
        /// The SIGUSR2 signals that arrive.
        let signals: UnixSignalsSequence

        func run() async throws {
            for await _ in signals.cancelOnGracefulShutdown() {
                guard let store = namespaces["default"]?.store else { continue }
                Task { await store.blockForever() }
            }
        }
    }
#endif
