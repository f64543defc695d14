import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Reload by the packaged units")
    struct PackagedReloadTests {
        /// Returns the commands of `ExecReload=` in a unit.
        private func reloadCommands(_ unit: String) throws -> [String] {
            let file = Checkout.root.appending(path: "packaging/systemd/\(unit)")
            let text = try String(contentsOf: file, encoding: .utf8)
            return text.split(separator: "\n").filter { $0.hasPrefix("ExecReload=") }
                .map { String($0.dropFirst("ExecReload=".count)) }
        }

        /// Runs the commands in order until one fails, as systemd does.
        private func reload(_ unit: String, _ agent: AgentProcess, _ home: AgentHome) throws -> Command {
            try run(try reloadCommands(unit).map { $0.replacing("$MAINPID", with: "\(agent.pid)") }, home)
        }

        /// Runs only the command that checks the settings.
        private func check(_ unit: String, _ home: AgentHome) throws -> Command {
            try run(try reloadCommands(unit).filter { $0.contains("--check-settings") }, home)
        }

        private func run(_ commands: [String], _ home: AgentHome) throws -> Command {
            let line = commands.joined(separator: " && ").replacing("/usr/sbin/larderd", with: try Products.agent)
            return try Command.run("/bin/sh", ["-c", line], environment: home.environment)
        }

        @Test(
            "a reload applies valid settings, and fails with the error if the settings are invalid",
            arguments: ["larder.service", "user/larder.service"])
        func reload(unit: String) throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc")
                try home.write("etc/larder.json", "{}")
                let agent = try home.start()

                try home.write("etc/larder.json", "{ namespaces: { shop: { durabilty: 'full' } } }")
                let refused = try reload(unit, agent, home)
                #expect(refused.status == 78)
                #expect(refused.log.contains("etc/larder.json") && refused.log.contains("durabilty"), "\(refused.log)")
                // The agent reports the error, too.
                let client = try agent.connect()
                try client.call(
                    "agent.info", until: { $0["settingsProblem"]?.string?.contains("durabilty") == true })
                #expect(try home.larder("status", "--check").status == 1)
                #expect(try home.larder("info").text.contains("rejected, so earlier settings are in effect"))

                try home.write("etc/larder.json", "{ namespaces: { shop: {} } }")
                #expect(try reload(unit, agent, home).status == 0)
                try client.call("agent.info", until: { $0["namespaces"] == ["default", "shop"] })
                try client.call("agent.info", until: { $0["settingsProblem"] == nil })
                #expect(try home.larder("status", "--check").status == home.healthyStatus)
            }
        }

        @Test(
            "a reload without a settings file fails if the agent has one, and succeeds if it has none",
            arguments: ["larder.service", "user/larder.service"])
        func missingSettings(unit: String) throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc")
                let without = try home.start(socket: home.directory + "/run/larder.sock")
                #expect(try reload(unit, without, home).status == 0)
                #expect(try without.stop() == .exit(0))

                try home.write("etc/larder.json", "{}")
                let agent = try home.start(socket: home.directory + "/run/larder.sock")
                unlink(home.directory + "/etc/larder.json")
                let refused = try reload(unit, agent, home)
                #expect(refused.status == 78)
                #expect(
                    refused.log.contains("etc/larder.json: this file no longer exists; restore it"), "\(refused.log)")
                #expect(try agent.stop() == .exit(0))
                let unreachable = try check(unit, home)
                #expect(unreachable.status == 78)
                #expect(unreachable.log.contains("there is no settings file"), "\(unreachable.log)")

                // The agent has a file, but these commands do not name it.
                try home.write(settings: "{}")
                let named = try home.start(socket: home.directory + "/run/larder.sock")
                let unnamed = try reload(unit, named, home)
                #expect(unnamed.status == 78)
                #expect(unnamed.log.contains("pass it here, too: --settings \(home.settings)"), "\(unnamed.log)")
            }
        }

        @Test(
            "a reload without the settings file that the agent has read fails, although larder.d has files",
            arguments: ["larder.service", "user/larder.service"])
        func remainingDirectory(unit: String) throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc/larder.d")
                try home.write("etc/larder.json", "{ namespaces: { mine: {} } }")
                try home.write("etc/larder.d/10.json", "{}")
                let agent = try home.start(socket: home.directory + "/run/larder.sock")
                // Once a problem ends, the settings are saved.
                try agent.reload()
                unlink(home.directory + "/etc/larder.json")
                let refused = try reload(unit, agent, home)
                #expect(refused.status == 78)
                #expect(
                    refused.log.contains("etc/larder.json: this file no longer exists; restore it"), "\(refused.log)")
                try agent.connect().call("agent.info", until: { $0["settingsProblem"] != nil })
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "mine"])
            }
        }

        @Test(
            "a reload applies the settings despite an invalid layer file, and prints the error of the file as a warning",
            arguments: ["larder.service", "user/larder.service"])
        func brokenLayer(unit: String) throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc/config.d")
                try home.write("etc/larder.json", "{}")
                try home.write("etc/config.d/10.json", #"{"n": 1}"#)
                let agent = try home.start()
                try home.write("etc/config.d/10.json", #"{"n": 2,"#)
                try home.write("etc/larder.json", "{ namespaces: { shop: {} } }")
                let reload = try reload(unit, agent, home)
                try #require(reload.status == 0, "\(reload.log)")
                #expect(
                    reload.log.contains("larderd: warning: \(home.directory)/etc/config.d/10.json:1:9: "),
                    "\(reload.log)")
                try agent.connect().call("agent.info", until: { $0["namespaces"] == ["default", "shop"] })
                #expect(try agent.call("config.get", ["n"])["value"] == 1)
            }
        }
    }
}
