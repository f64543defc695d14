import Glibc
import LarderJSON
import LarderClient
import LarderProtocol
import TestSupport
import Testing

extension Integration {
    @Suite("Reload of the settings")
    struct ReloadTests {
        @Test("a reload adds a namespace, and ends only the subscriptions of a removed one")
        func namespaces() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {} } }") { home in
                let agent = try home.start()
                let (client, halfClosed) = try (agent.connect(), agent.connect())
                for client in [client, halfClosed] {
                    try client.call("config.subscribe", ["namespace": "old"])
                    #expect(try client.event()["reason"] == "initial")
                }
                halfClosed.halfClose()
                try client.call("config.subscribe", ["namespace": "default"])
                #expect(try client.event()["reason"] == "initial")
                #expect(try client.refusal("config.get", ["namespace": "new"]).name == "unknownNamespace")

                try home.write(settings: "{ namespaces: { new: { durability: 'relaxed' } } }")
                try agent.reload()
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "new"])
                let end = try client.event()
                #expect(end["namespace"] == "old")
                #expect(end["kind"] == "end")
                #expect(end["reason"] == "namespaceRemoved")
                #expect(end["sequence"] == 2)
                #expect(try halfClosed.readUntilClosed().map { $0["params"]?["reason"] } == ["namespaceRemoved"])
                #expect(try client.refusal("config.get", ["namespace": "old"]).name == "unknownNamespace")
                #expect(try client.refusal("config.unsubscribe", ["subscription": 1]).name == "notFound")

                try client.call("config.set", ["path": "n", "value": 1, "namespace": "new"])
                try client.call("config.set", ["path": "n", "value": 2])
                #expect(try client.event()["value"] == ["n": 2], "the subscription to another namespace was affected")
                #expect(try agent.status("new")["durability"] == "relaxed")
            }
        }

        @Test("a namespace that is removed and added again has the same content")
        func namespaceReturns() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {} } }") { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.set", ["path": "n", "value": 1, "namespace": "old"])
                let before = try client.call("config.get", ["namespace": "old"])
                for _ in 0..<3 {
                    try home.write(settings: "{}")
                    try agent.reload()
                    #expect(try client.refusal("config.get", ["namespace": "old"]).name == "unknownNamespace")
                    try home.write(settings: "{ namespaces: { old: {} } }")
                    try agent.reload()
                    #expect(try client.call("config.get", ["namespace": "old"]) == before)
                }
            }
        }

        @Test("a new namespace that cannot be opened is a problem in `agent.info` and `larder status`, not in others")
        func unopened() throws {
            try AgentHome.with(settings: "{}") { home in
                let agent = try home.start()
                #expect(try agent.call("agent.info")["problems"] == [])
                #expect(try home.larder("status").text.contains("namespace new:") == false)
                // A file in place of the directory of the namespace.
                try Command.run("touch", [home.state + "/config/new"])
                try home.write(settings: "{ namespaces: { new: {} } }")
                try agent.reload()
                let problems = try Array(#require(agent.call("agent.info")["problems"]).elements)
                #expect(problems.map { $0["name"]?.string } == ["namespace"])
                #expect(problems.first?["message"]?.string?.hasPrefix("namespace new: ") == true, "\(problems)")
                let check = try home.larder("status", "--check")
                #expect(check.end == .exit(1), "\(check.text)")
                #expect(check.text.contains("namespace new: "), "\(check.text)")
                let doctor = try home.larder("doctor")
                #expect(doctor.text.contains("a namespace of the settings could not be opened"), "\(doctor.text)")
                try Command.run("rm", [home.state + "/config/new"])
                try agent.reload()
                #expect(try agent.call("agent.info")["problems"] == [])
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "new"])
            }
        }

        @Test("invalid settings are rejected with an error in the log, and the current settings stay in effect")
        func wrongSettings() throws {
            try AgentHome.with(settings: "{ namespaces: { mine: {} } }") { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["namespace": "mine"])
                #expect(try client.event()["reason"] == "initial")
                let atStart = try #require(agent.call("agent.info")["settingsReadAt"]?.string)
                try home.write(settings: "{ namespaces: { mine: { durabilty: 'full' } } }")
                try agent.reload()
                let line = try agent.waitForLog("the new settings are invalid")
                #expect(line.contains("durabilty") && line.contains("durability"), "\(line)")
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "mine"])
                try client.call("config.set", ["path": "n", "value": 1, "namespace": "mine"])
                #expect(try client.event()["value"] == ["n": 1])
                #expect(try agent.call("agent.info")["settingsReadAt"]?.string == atStart)

                try home.write(settings: "{ namespaces: { mine: {}, yours: {} } }")
                var now = timespec()
                clock_gettime(CLOCK_REALTIME, &now)
                let changedAt = Timestamp(milliseconds: now.tv_sec * 1000 + now.tv_nsec / 1_000_000)
                try agent.reload()
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "mine", "yours"])
                #expect(try #require(agent.call("agent.info")["settingsReadAt"]?.string) >= changedAt.description)
            }
        }

        @Test("the log level follows a reload")
        func logLevel() throws {
            try AgentHome.with(settings: "{ log: { level: 'error' } }") { home in
                let agent = try home.start(logLevel: nil)
                try home.write(settings: "{ log: { level: 'notice' }, current: { enabled: false } }")
                try agent.reload()
                _ = try agent.waitForLog("settings reloaded")
                try home.write(settings: "{ log: { level: 'error' } }")
                try agent.reload()
                let before = agent.log
                try home.write(settings: "{ log: { level: 'error' }, namespaces: { new: {} } }")
                try agent.reload()
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "new"])
                #expect(agent.log.dropFirst(before.count).contains("settings reloaded") == false, "\(agent.log)")
                #expect(!agent.log.contains("log.level"), "\(agent.log)")
            }
        }

        @Test(
            "a reload applies a settings file that was created after the start; once it is removed, a reload fails"
        )
        func fileAppears() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                #expect(try agent.call("agent.info")["settings"] == .null)
                try home.makeDirectory("etc")
                try home.write("etc/larder.json", "{ namespaces: { mine: {} } }")
                try agent.reload()
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "mine"])
                #expect(try agent.call("agent.info")["settings"]?.string == home.directory + "/etc/larder.json")

                #expect(unlink(home.directory + "/etc/larder.json") == 0)
                try agent.reload()
                try #expect(agent.waitForLog("the new settings are invalid").contains("no longer exists"))
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "mine"])
            }
        }

        @Test("with invalid settings, a start and --check-settings fail with status 78 and print the same line")
        func wrongSettingsAtStart() throws {
            try AgentHome.with(settings: "{ limits: { sendTimeoutSecond: 3 } }") { home in
                let start = try home.runUntilExit()
                #expect(start.end == .exit(78))
                #expect(start.log.split(separator: "\n").count == 1, "\(start.log)")
                #expect(start.log.contains("sendTimeoutSeconds"), "\(start.log)")
                #expect(!home.exists(home.socket))
                let check = try Command.run(
                    Products.agent, ["--check-settings", "--settings", home.settings], environment: home.environment)
                #expect(check.end == .exit(78))
                #expect(check.log == start.log)
                try home.write(settings: "{ limits: { sendTimeoutSeconds: 3 } }")
                let corrected = try Command.run(
                    Products.agent, ["--check-settings", "--settings", home.settings], environment: home.environment)
                #expect(corrected.end == .exit(0))
            }
        }

        @Test("--check-settings warns about accounts that the host does not have, and exits with status 0")
        func unknownAccounts() throws {
            let settings = "{ access: { users: { 'no-such-user': ['read'] }, groups: { root: ['read'] } } }"
            try AgentHome.with(settings: settings) { home in
                let check = try Command.run(
                    Products.agent, ["--check-settings", "--settings", home.settings], environment: home.environment)
                #expect(check.end == .exit(0))
                let warnings = check.log.split(separator: "\n")
                #expect(warnings.count == 1, "\(check.log)")
                #expect(check.log.contains(#"the user "no-such-user" of access.users does not exist"#), "\(check.log)")
            }
        }

        @Test(
            "if `access` is not set and no group larder exists, an agent run by root logs how to create the group",
            .enabled(if: geteuid() == 0 && getgrnam("larder") == nil, "needs root and a host without a group larder"))
        func missingGroup() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let warning = try agent.waitForLog("addgroup --system larder")
                #expect(warning.contains("warning"))
                // The group has rights after a reload, but the socket still belongs to the group of the agent.
                #expect(warning.contains("set socket.group"), "\(warning)")
                #expect(try agent.stop() == .exit(0))
                try home.write(settings: "{ access: {} }")
                #expect(try !home.start().log.contains("addgroup"))
            }
        }

        @Test("a new source is polled without the validator of the previous source, whose document is dropped")
        func sourceExchanged() throws {
            let (first, second) = try (
                RawOrigin.listening(.document(#"{"from":1,"only":1}"#, etag: "a")),
                RawOrigin.listening(.document(#"{"from":2}"#, etag: "a"))
            )
            defer { for origin in [first, second] { origin.stop() } }
            func settings(_ origin: RawOrigin?) -> String {
                let remote =
                    origin.map { "remote: { http: { url: '\($0.documentURL)', intervalSeconds: 86400 } }" } ?? ""
                return "{ namespaces: { default: { \(remote) } } }"
            }
            try AgentHome.with(settings: settings(first)) { home in
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["from": 1, "only": 1])
                try home.write(settings: settings(second))
                try agent.reload()
                while try client.event()["value"] != ["from": 2] {}
                #expect(try second.request()["if-none-match"] == nil, "the validator of the previous source was sent")
                try home.write(settings: settings(nil))
                try agent.reload()
                #expect(try client.event()["value"] == [:])
                #expect(try agent.status()["upstream"]?.isNull == true)
            }
        }

        @Test("a SIGHUP during startup does not end the agent, and the settings are reloaded", arguments: 1...5)
        func earlySignal(_: Int) throws {
            try AgentHome.with(settings: "{}") { home in
                let agent = try home.start { process in
                    // Waits until the agent handles SIGHUP. Before that, the signal would end the process.
                    let deadline = Deadline.usual
                    while !process.handlesSignal(SIGHUP, inProgram: "larderd") {
                        if deadline.hasPassed { throw HarnessError("the agent does not handle SIGHUP") }
                    }
                    try home.write(settings: "{ namespaces: { new: {} } }")
                    process.signal(SIGHUP)
                }
                // The agent either read the changed settings at its start, or reads the settings again because of the
                // signal.
                try agent.connect().call("agent.info", until: { $0["namespaces"] == ["default", "new"] })
            }
        }

        @Test("reloads do not lose writes or events of connected clients")
        func busyReloads() throws {
            try AgentHome.with(settings: "{ namespaces: { a: {} } }") { home in
                let agent = try home.start()
                let (writer, watcher) = try (agent.connect(), agent.connect())
                try watcher.call("config.subscribe", ["n"])
                #expect(try watcher.event()["exists"] == false)
                for round in 1...20 {
                    let ids = try (1...20).map {
                        try writer.request("config.set", ["path": "n", "value": .int(round * 100 + $0)])
                    }
                    try home.write(
                        settings:
                            "{ namespaces: { a: {}, n\(round): {}, default: { durability: '\(round % 2 == 0 ? "full" : "relaxed")' } } }"
                    )
                    try agent.reload()
                    for id in ids { try writer.reply(to: id) }
                    while try watcher.event()["value"]?.int != round * 100 + 20 {}
                }
            }
        }
    }
}
