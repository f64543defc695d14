/// One part of the agent that the watchdog asks for a sign of life.
struct Probe: Sendable {
    /// Which part, for the log: what stands before "does not answer".
    let name: String
    /// Asks it. What is handed over is called once it has answered, from any thread; never, where it does not answer.
    let ask: @Sendable (_ answered: @escaping @Sendable () -> Void) -> Void

    init(_ name: String, ask: @escaping @Sendable (_ answered: @escaping @Sendable () -> Void) -> Void) {
        self.name = name
        self.ask = ask
    }

    /// A probe of an actor: it has answered when a call of it returns.
    init(_ name: String, calling call: @escaping @Sendable () async -> Void) {
        self.init(name) { answered in
            // Not a child task: nobody waits for one that may never end.
            Task {
                await call()
                answered()
            }
        }
    }
}
