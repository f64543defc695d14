import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Start with invalid settings")
    struct InvalidStartTests {
        private let problem = "so the agent runs with the last ones that it saved"

        /// The files of saved settings in a directory.
        private func savedFiles(_ directory: String) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasPrefix("settings-") }
                .map { directory + "/" + $0 }
        }

        @Test(
            "after the file became invalid, each start uses the settings saved last, until a valid file is reloaded")
        func savedSettings() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {} } }") { home in
                var agent = try home.start()
                try home.write(settings: "{ namespaces: { mine: {} } }")
                try agent.reload()
                let readAt = try #require(agent.call("agent.info")["settingsReadAt"]?.string)
                try home.write(settings: "{ bad")
                try agent.reload()
                let refused = try agent.call("agent.info")
                #expect(refused["settingsProblem"]?.string?.hasPrefix("\(home.settings):1:") == true, "\(refused)")
                for _ in 0..<3 {
                    #expect(try agent.stop() == .exit(0))
                    agent = try home.start()
                    #expect(try agent.waitForLog(problem).contains("read at \(readAt)"))
                    let info = try agent.call("agent.info")
                    #expect(info["namespaces"] == ["default", "mine"])
                    #expect(info["settings"]?.string == home.settings)
                    #expect(info["settingsReadAt"]?.string == readAt)
                    #expect(info["settingsProblem"] == refused["settingsProblem"])
                }
                try home.write(settings: "{ namespaces: { mine: {}, yours: {} } }")
                try agent.reload()
                let info = try agent.call("agent.info")
                #expect(info["namespaces"] == ["default", "mine", "yours"])
                #expect(info["settingsProblem"] == nil)
                #expect(try agent.stop() == .exit(0))

                // The settings of a reload are saved, too.
                try home.write(settings: "{ bad")
                #expect(try home.start().call("agent.info")["namespaces"] == ["default", "mine", "yours"])
            }
        }

        @Test("settings that an earlier version saved are used under the present names, until the file has them, too")
        func renamedSettings() throws {
            try AgentHome.with(settings: "{ limits: { sendTimeoutSeconds: 7 } }") { home in
                #expect(try home.start().stop() == .exit(0))
                // The earlier version read and saved this text.
                let saved = try #require(savedFiles(home.state).first)
                let text = try String(contentsOfFile: saved, encoding: .utf8)
                try text.replacing("sendTimeoutSeconds", with: "stallSeconds")
                    .write(toFile: saved, atomically: false, encoding: .utf8)
                try home.write(settings: "{ limits: { stallSeconds: 7 } }")
                let agent = try home.start()
                let info = try agent.call("agent.info")
                #expect(info["limits"]?["sendTimeoutMilliseconds"] == 7000)
                let advice = "limits.stallSeconds is now called limits.sendTimeoutSeconds; rename it"
                #expect(info["settingsProblem"]?.string?.hasSuffix(advice) == true, "\(info)")
                try home.write(settings: "{ limits: { sendTimeoutSeconds: 8 } }")
                try agent.reload()
                let reloaded = try agent.call("agent.info")
                #expect(reloaded["limits"]?["sendTimeoutMilliseconds"] == 8000)
                #expect(reloaded["settingsProblem"] == nil)
            }
        }

        @Test("if settings cannot be saved, the agent reports which ones a restart with an invalid file uses")
        func unsaved() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {} } }") { home in
                var agent = try home.start()
                let readAt = try #require(agent.call("agent.info")["settingsReadAt"]?.string)
                #expect(try agent.stop() == .exit(0))
                let saved = try #require(savedFiles(home.state).first)
                // A directory in place of the temporary file.
                try Command.run("mkdir", [saved + ".tmp"])
                try home.write(settings: "{ namespaces: { mine: {} } }")
                agent = try home.start()
                let outcome = "a restart with an invalid settings file would use the settings read at \(readAt): "
                try agent.waitForLog(outcome)
                let info = try agent.call("agent.info")
                #expect(info["namespaces"] == ["default", "mine"])
                #expect(info["problems"]?[0]?["name"] == "settingsCopy")
                #expect(info["problems"]?[0]?["message"]?.string?.hasPrefix(outcome) == true, "\(info)")
                #expect(try agent.stop() == .exit(0))

                try home.write(settings: "{ bad")
                agent = try home.start()
                #expect(try agent.waitForLog(problem).contains("read at \(readAt)"))
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "old"])
                #expect(try agent.call("agent.info")["settingsReadAt"]?.string == readAt)
            }
        }

        @Test("status, status --check and doctor report that the file is invalid, doctor first of all")
        func reports() throws {
            try AgentHome.with(settings: "{ namespaces: { mine: {} } }") { home in
                #expect(try home.start().stop() == .exit(0))
                try home.write(settings: "{ bad")
                let agent = try home.start()
                let status = try home.larder("status", "--check")
                #expect(status.status == 1)
                let headline = status.text.prefix { $0 != "\n" }
                #expect(headline.hasPrefix("problem: ") && headline.contains("\(home.settings):1:"), "\(headline)")
                #expect(
                    status.text.contains(
                        "settings  rejected, so the agent runs with earlier ones: \(home.settings):1:"),
                    "\(status.text)")
                #expect(status.text.contains("\n          those in effect were read "), "\(status.text)")
                #expect(try home.larder("status", "--check", "--json").status == 1)
                #expect(try home.larder("info").text.contains("rejected, so earlier settings are in effect"))
                let doctor = try home.larder("doctor", "--json")
                #expect(doctor.status == 1)
                let first = try JSONValue(parsing: doctor.text)["findings"]?[0]
                #expect(first?["check"] == "settings")
                #expect(first?["level"] == "problem")
                #expect(first?["detail"]?[0]?.string?.hasPrefix("\(home.settings):1:") == true, "\(doctor.text)")

                try home.write(settings: "{ namespaces: { mine: {} } }")
                // The problem stays until the file is reloaded.
                #expect(try home.larder("status", "--check").status == 1)
                try agent.reload()
                #expect(try home.larder("status", "--check").status == home.healthyStatus)
                #expect(try !home.larder("status").text.contains("rejected"))
            }
        }

        @Test("a settings file that cannot be read is invalid, too")
        func missing() throws {
            try AgentHome.with(settings: "{ namespaces: { mine: {} } }") { home in
                #expect(try home.start().stop() == .exit(0))
                unlink(home.settings)
                // A directory cannot be read as a file.
                try home.makeDirectory("larder.json")
                let info = try home.start().call("agent.info")
                #expect(info["namespaces"] == ["default", "mine"])
                #expect(info["settingsProblem"]?.string?.hasPrefix("\(home.settings): ") == true, "\(info)")
            }
        }

        @Test(
            "without the settings file that an agent used, starts and reloads keep its settings until it has a file again"
        )
        func missingFile() throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc/larder.d")
                let file = home.directory + "/etc/larder.json"
                let patch = "etc/larder.d/10.json"
                try home.write("etc/larder.json", "{ access: { others: [] }, namespaces: { mine: {} } }")
                try home.write(patch, #"{"namespaces": {"more": {}}}"#)
                #expect(try home.start().stop() == .exit(0))

                /// Runs `larderd --check-settings`, which must report that the file is missing.
                func expectMissing() throws {
                    let check = try Command.run(Products.agent, ["--check-settings"], environment: home.environment)
                    #expect(check.status == 78)
                    #expect(check.log.contains("\(file): this file no longer exists"), "\(check.log)")
                }
                unlink(file)
                for hasPatch in [true, false] {
                    if !hasPatch { unlink(home.directory + "/" + patch) }
                    try expectMissing()
                    let agent = try home.start()
                    for _ in 0..<2 {
                        let info = try agent.call("agent.info")
                        #expect(info["namespaces"] == ["default", "mine", "more"])
                        let problem = info["settingsProblem"]?.string ?? ""
                        #expect(problem.hasPrefix("\(file): this file no longer exists"), "\(info)")
                        try agent.reload()
                    }
                    #expect(try home.larder("status", "--check").status == 1)
                    let doctor = try JSONValue(parsing: try home.larder("doctor", "--json").text)["findings"]?[0]
                    #expect(doctor?["check"] == "settings" && doctor?["level"] == "problem", "\(doctor ?? .null)")
                    #expect(doctor?["advice"]?[0]?.string?.hasPrefix("restore the file") == true, "\(doctor ?? .null)")
                    #expect(try agent.stop() == .exit(0))
                }

                try home.write("etc/larder.json", "{}")
                let agent = try home.start()
                let info = try agent.call("agent.info")
                #expect(info["namespaces"] == ["default"])
                #expect(info["settingsProblem"] == nil)
            }
        }

        @Test("an agent that only had files of larder.d starts without larder.json, but not without all of these files")
        func missingDirectory() throws {
            try AgentHome.with { home in
                #expect(try home.start().stop() == .exit(0))
                try home.makeDirectory("etc/larder.d")
                for name in ["10.json", "20.json"] {
                    try home.write("etc/larder.d/\(name)", #"{"namespaces": {"mine": {}}}"#)
                }
                for name in ["10.json", "20.json"] {
                    let agent = try home.start()
                    #expect(try agent.call("agent.info")["settingsProblem"] == nil)
                    #expect(try agent.stop() == .exit(0))
                    let check = try Command.run(Products.agent, ["--check-settings"], environment: home.environment)
                    #expect(
                        check.text
                            == "\(home.directory)/etc/larder.d: valid; there is no \(home.directory)/etc/larder.json\n")
                    unlink("\(home.directory)/etc/larder.d/\(name)")
                }
                let info = try home.start().call("agent.info")
                #expect(info["namespaces"] == ["default", "mine"])
                #expect(info["settingsProblem"]?.string?.contains("nor a file of larder.d") == true, "\(info)")
            }
        }

        @Test("settings are saved in the directory of the environment, with mode 0600, if they name another one")
        func otherStateDirectory() throws {
            try AgentHome.with(settings: "{ state: { directory: '@/elsewhere' }, namespaces: { mine: {} } }") { home in
                /// Starts an agent without `--state-directory`, and stops it after a request.
                func info(_ name: String) throws -> JSONValue {
                    let notify = try NotifySocket(path: home.directory + "/" + name)
                    let options = ["--socket", home.socket, "--settings", home.settings]
                    let process = try ChildProcess(
                        Products.agent, options + ["--cache-directory", home.directory + "/cache"],
                        environment: home.environment.merging(["NOTIFY_SOCKET": notify.path]) { $1 },
                        directory: home.directory)
                    defer { process.kill() }
                    try notify.wait(for: "READY=1", orUntilEndOf: process)
                    let info = try LineClient(path: home.socket).call("agent.info")
                    process.signal(SIGTERM)
                    #expect(try process.waitForEnd() == .exit(0), "\(process.logText)")
                    return info
                }
                #expect(try info("first")["stateDirectory"]?.string == home.directory + "/elsewhere")
                let saved = try savedFiles(home.state)
                #expect(saved.count == 1)
                #expect(try savedFiles(home.directory + "/elsewhere") == [])
                var status = stat()
                #expect(stat(try #require(saved.first), &status) == 0)
                #expect(status.st_mode & 0o7777 == 0o600)

                try home.write(settings: "{ bad")
                let again = try info("second")
                #expect(again["stateDirectory"]?.string == home.directory + "/elsewhere")
                #expect(again["namespaces"] == ["default", "mine"])
            }
        }

        @Test("without saved settings, an activated agent answers `unavailable` until the file is valid")
        func waiting() throws {
            try AgentHome.with(settings: "{ bad") { home in
                let listener = try home.listener()
                // A client in the backlog would make systemd start an agent that exits, over and over.
                let early = try LineClient(path: home.socket)
                let request = try early.request("agent.ping")
                let agent = try home.start(listener: listener)
                let refusal = #expect(throws: LineClient.Refusal.self) { try early.reply(to: request) }
                #expect(refusal?.name == "unavailable")
                #expect(refusal?.detail.contains("\(home.settings):1:") == true, "\(refusal?.detail ?? "")")
                #expect(try early.refusal("config.get", ["n"]).name == "unavailable")
                #expect(agent.log.contains("\(home.settings):1:"), "\(agent.log)")

                let command = try home.larder("get", "n")
                #expect(command.status == 8)
                #expect(command.log.contains("\(home.settings):1:"), "\(command.log)")
                let doctor = try home.larder("doctor", "--json")
                #expect(doctor.status == 5)
                let first = try JSONValue(parsing: doctor.text)["findings"]?[0]
                #expect(first?["check"] == "settings")
                #expect(first?["level"] == "problem")

                // The error changes with the file.
                try home.write(settings: "{ color: 1 }")
                try agent.waitForLog("color")
                #expect(try agent.connect().refusal("agent.ping").detail.contains("color"))

                try home.write(settings: "{ namespaces: { mine: {} } }")
                try agent.waitForLog("the settings are valid now")
                let info = try agent.call("agent.info")
                #expect(info["namespaces"] == ["default", "mine"])
                #expect(info["activated"] == true)
                #expect(info["settingsProblem"] == nil)
                #expect(try agent.stop() == .exit(0))

                // These settings are saved, so the next start with an invalid file uses them.
                try home.write(settings: "{ bad")
                let next = try home.start(listener: listener)
                #expect(try next.call("agent.info")["namespaces"] == ["default", "mine"])
            }
        }

        @Test("idle clients prevent an agent that waits for settings neither from answering others nor from starting")
        func idleClients() throws {
            try AgentHome.with(settings: "{ bad") { home in
                let agent = try home.start(
                    wrapper: ["prlimit", "--nofile=128:128", "--"], listener: try home.listener())
                let idle = try (0..<150).map { _ in try LineClient(path: home.socket, isRecorded: false) }
                #expect(try agent.connect().refusal("agent.ping").name == "unavailable")
                try home.write(settings: "{ images: { enabled: false } }")
                try agent.waitForLog("the settings are valid now")
                for client in idle { client.close() }
                // The agent handles signals once it has started.
                try agent.call("agent.ping")
                #expect(try agent.stop() == .exit(0))
            }
        }

        @Test(
            "an agent that waits for settings answers batches, lines that are no requests, and half-closed connections")
        func lines() throws {
            try AgentHome.with(settings: "{ bad") { home in
                let listener = try home.listener()
                let agent = try home.start(listener: listener)
                func client() throws -> LineClient { try LineClient(path: home.socket, isRecorded: false) }
                let first = try client()
                try first.send(#"[{"id":7,"method":"config.get"},{"method":"agent.ping"},{"id":"x","method":"a"}]"#)
                #expect(try first.message().elements.compactMap { $0["id"] } == [7, "x"])
                // The notification gets no reply, so the next reply is that of the next line.
                try first.send(#"{"method":"agent.ping"}"#)
                try first.send("{")
                let unreadable = try first.message()
                #expect(unreadable["id"] == .null)
                #expect(unreadable["error"]?["data"]?["name"] == "unavailable")
                let requests = [String](repeating: #"{"id":1,"method":"agent.ping"}"#, count: 65)
                try first.send("[\(requests.joined(separator: ","))]")
                #expect(try first.message()["id"] == .null)

                let second = try client()
                try second.send(bytes: Array(#"{"id":1,"method":"agent.ping"}"#.utf8))
                second.halfClose()
                let replies = try second.readUntilClosed(expectsAllReplies: false)
                #expect(replies.map { $0["id"] } == [1])

                // A line in several pieces, from a client that the agent has already served.
                try first.send(bytes: Array(#"{"id":2,"#.utf8))
                #expect(try client().refusal("agent.ping").name == "unavailable")
                try first.send(#""method":"agent.ping"}"#)
                #expect(try first.message()["id"] == 2)

                try home.write(settings: "{}")
                try agent.waitForLog("the settings are valid now")
                #expect(try first.line() == nil)
                try agent.call("agent.ping")
            }
        }
    }
}
