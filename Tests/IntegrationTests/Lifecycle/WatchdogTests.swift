import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Watchdog of the service manager")
    struct WatchdogTests {
        @Test("a failure to notify the watchdog is logged and does not end the agent")
        func watchdog() throws {
            try AgentHome.with { home in
                let agent = try home.start(wrapper: ["env", "WATCHDOG_USEC=100000"])
                try agent.waitForNotification("WATCHDOG=1")
                agent.closeNotifications()
                try agent.waitForLog("cannot notify the watchdog")
                try agent.call("agent.ping")
                #expect(try agent.stop() == .exit(0), "\(agent.log)")
            }
        }

        @Test("a deadlocked store is named in the log before the watchdog expires")
        func deadlock() throws {
            try AgentHome.with(settings: "{ namespaces: { default: {}, other: {} } }") { home in
                // Parts that do not respond for one second are named in the log. The other parts respond sooner, even on
                // a busy machine.
                let agent = try home.start(wrapper: ["env", "WATCHDOG_USEC=4000000"])
                try agent.waitForNotification("WATCHDOG=1")
                // SIGUSR2 blocks the store of the namespace `default`. Release builds do not support this.
                agent.process.signal(SIGUSR2)
                let line = try agent.waitForLog("the store of namespace default")
                #expect(line.contains("the watchdog is not notified"))
                // Requests that do not use the blocked store are still answered.
                #expect(try agent.call("agent.ping") == ["pong": true])
                #expect(try agent.call("config.get", ["namespace": "other"])["value"] == [:])
                agent.kill()
            }
        }
    }
}
