#if DEBUG
    import LarderConfig
    import ServiceLifecycle
    import UnixSignals

    /// Blocks the store of the namespace `default` for ever at SIGUSR2, so that it can be seen what the watchdog does. There
    /// is no such thing in release builds.
    struct DeadlockSwitch: AgentService {
        let namespaces: ConfigNamespaces
        /// Each SIGUSR2.
        let signals: UnixSignalsSequence

        func run() async throws {
            for await _ in signals.cancelOnGracefulShutdown() {
                guard let store = namespaces["default"]?.store else { continue }
                Task { await store.blockForEver() }
            }
        }
    }
#endif
