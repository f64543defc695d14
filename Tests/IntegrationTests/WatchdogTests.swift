import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("The watchdog of a service manager")
    struct WatchdogTests {
        @Test("a watchdog that cannot be fed is a line in the log, not the end")
        func watchdog() throws {
            try AgentHome.with { home in
                let agent = try home.start(wrapper: ["env", "WATCHDOG_USEC=100000"])
                try agent.waitForNotification("WATCHDOG=1")
                agent.closeNotifications()
                try agent.waitForLog("the watchdog could not be fed")
                try agent.ask("agent.ping")
                #expect(try agent.stop() == .exit(0), "\(agent.log)")
            }
        }

        @Test("a store that is deadlocked is named in the log, and the watchdog is fed no more")
        func deadlock() throws {
            try AgentHome.with(settings: "{ namespaces: { default: {}, other: {} } }") { home in
                let agent = try home.start(wrapper: ["env", "WATCHDOG_USEC=2000000"])
                try agent.waitForNotification("WATCHDOG=1")
                agent.process.signal(SIGUSR2)
                try agent.waitForLog("the store of namespace default; unless it comes, the watchdog is not fed")
                // What is not deadlocked goes on.
                #expect(try agent.ask("agent.ping") == ["pong": true])
                #expect(try agent.ask("config.get", ["namespace": "other"])["value"] == [:])
                agent.kill()
            }
        }
    }
}
