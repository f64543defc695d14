import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("larderd --check-settings with layer files")
    struct CheckSettingsTests {
        private func check(_ home: AgentHome) throws -> Command {
            try Command.run(
                Products.agent, ["--check-settings", "--settings", home.settings], environment: home.environment)
        }

        @Test("--check-settings reports all errors in the settings and in layer files with file, line and column")
        func allErrors() throws {
            try AgentHome.with(
                settings:
                    "{\n  color: 1,\n  limits: { connections: 0 },\n  namespaces: { shop: { host: { directory: '@/shop' } } },\n}"
            ) { home in
                for directory in ["config.d", "shop"] { try home.makeDirectory(directory) }
                try home.write("config.d/10.json", #"{"search":{"limit": 15}, // comment"#)
                try home.write("config.d/20.json", "{}")
                try home.write("config.d/30.json5", "{ limit: 5, }")
                try home.write("shop/a.json5", "{\n  a: b\n}")
                let found = try check(home)
                #expect(found.end == .exit(78))
                let places = found.log.split(separator: "\n").map { $0.split(separator: " ")[1] }
                #expect(
                    places == [
                        "\(home.settings):2:3:", "\(home.settings):3:26:", "\(home.directory)/config.d/10.json:1:26:",
                        "\(home.directory)/shop/a.json5:2:6:",
                    ], "\(found.log)")
                #expect(found.log.split(separator: "\n").allSatisfy { $0.hasPrefix("larderd: ") })
            }
        }

        @Test("errors in larder.d name its files, also in larder doctor, and a reload with them is refused")
        func settingsDirectory() throws {
            try AgentHome.with(settings: "{ limits: { connections: 10 } }") { home in
                try home.makeDirectory("larder.d")
                try home.write("larder.d/10.json", "{\n\"namespaces\": {\"shop\": {}}}")
                let agent = try home.start()
                #expect(try agent.call("agent.info")["namespaces"] == ["default", "shop"])
                try home.write("larder.d/20.json", "{\"limits\":\n{\"connections\": 0}}")
                let found = try check(home)
                #expect(found.end == .exit(78))
                let place = "\(home.directory)/larder.d/20.json:2:17: limits.connections must be"
                #expect(found.log.hasPrefix("larderd: \(place)"), "\(found.log)")
                let doctor = try home.larder("doctor")
                #expect(doctor.text.contains("\(home.settings) is invalid"), "\(doctor.text)")
                #expect(doctor.text.contains(place), "\(doctor.text)")
                try agent.reload()
                #expect(try agent.call("agent.info")["settingsProblem"]?.string?.hasPrefix(place) == true)
                #expect(try agent.call("agent.info")["limits"]?["connections"] == 10)
                try home.write("larder.d/20.json", #"{"limits": {"connections": 20}, "namespaces": {"shop": null}}"#)
                try agent.reload()
                #expect(try agent.call("agent.info")["settingsProblem"] == nil)
                #expect(try agent.call("agent.info")["limits"]?["connections"] == 20)
                #expect(try agent.call("agent.info")["namespaces"] == ["default"])
            }
        }

        @Test("larder info --settings prints each setting with its file and line")
        func shownSettings() throws {
            try AgentHome.with(settings: "{\n  limits: { connections: 10 } }") { home in
                try home.makeDirectory("larder.d")
                try home.write("larder.d/10.json", #"{"namespaces": {"shop": {"durability": "full"}}}"#)
                _ = try home.start()
                let shown = try home.larder("info", "--settings")
                #expect(shown.end == .exit(0), "\(shown.log)")
                let lines = shown.text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
                #expect(
                    lines == [
                        "limits.connections = 10 \(home.settings):2",
                        "namespaces.shop.durability = \"full\" \(home.directory)/larder.d/10.json:1",
                    ])
                let json = try JSONValue(parsing: home.larder("info", "--settings", "--json").text)
                #expect(json[0]?["value"] == 10)
                #expect(json[1]?["file"]?.string == "\(home.directory)/larder.d/10.json")
                try home.write("larder.d/20.json", "{")
                let failed = try home.larder("info", "--settings")
                #expect(failed.end == .exit(1))
                #expect(failed.log.contains("\(home.directory)/larder.d/20.json:1:2: "), "\(failed.log)")
            }
        }

        @Test("--check-settings and larder doctor name files of a layer that are not read")
        func ignoredFiles() throws {
            try AgentHome.with(settings: "{}") { home in
                try home.makeDirectory("config.d")
                try home.makeDirectory("larder.d")
                try home.write("larder.d/50-limits", "{}")
                for name in ["10.json", "40-x.jsn", ".hidden", "README", "20.json.bak", "30.json5~"] {
                    try home.write("config.d/\(name)", "{}")
                }
                _ = try home.start()
                let found = try check(home)
                #expect(found.end == .exit(0))
                let line = "\(home.directory)/config.d/40-x.jsn: its name ends with neither .json nor .json5"
                let lines = found.log.split(separator: "\n").filter { $0.contains("not read: ") }
                #expect(lines.count == 2, "\(found.log)")
                #expect(
                    lines.first?.hasPrefix("larderd: warning: not read: \(home.directory)/larder.d/50-limits: ") == true
                )
                #expect(lines.last?.hasPrefix("larderd: warning: not read: \(line)") == true, "\(found.log)")
                let doctor = try home.larder("doctor")
                #expect(
                    doctor.text.contains("files beside those of settings and layers are not read"), "\(doctor.text)")
                #expect(doctor.text.contains(line), "\(doctor.text)")
            }
        }

        @Test("--check-settings warns about a missing layer file")
        func missingFile() throws {
            try AgentHome.with(settings: "{ namespaces: { shop: { defaults: { path: '@/none.json' } } } }") { home in
                let found = try check(home)
                #expect(found.end == .exit(0))
                #expect(
                    found.log.contains("larderd: warning: not checked: \(home.directory)/none.json: "), "\(found.log)")
                #expect(found.log.contains(" (named in \(home.settings):1)"), "\(found.log)")
            }
        }

        @Test("--check-settings reports schemas, rejected values and credentials; with --for-reload they are warnings")
        func namedFiles() throws {
            let settings = """
                { images: { origins: { "https://127.0.0.1": { tokenFile: "@/image.token" } } }, namespaces: {
                  default: { schema: { path: "@/schema.json" } },
                  broken: { schema: { path: "@/broken.json" } }, missing: { schema: { path: "@/missing.json" } },
                  shop: { remote: { http: { url: "https://127.0.0.1", tokenFile: "@/token", certificateAuthority: "@/ca" } } },
                  flags: { remote: { etcd: { endpoints: ["http://127.0.0.1:1"], prefix: "/a/", user: "a", passwordFile: "@/pw" } } },
                } }
                """
            try AgentHome.with(settings: settings) { home in
                try home.write("schema.json", #"{"properties": {"limit": {"type": "integer"}}}"#)
                try home.write("broken.json", "{ bad")
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", #"{"limit": "many"}"#)
                let names = [
                    "broken.json:1:", "config.d/10.json:1: limit: ", "pw: ", "missing.json: ", "token: ", "ca: ",
                    "image.token: ",
                ]
                let found = try check(home)
                #expect(found.end == .exit(78))
                let lines = found.log.split(separator: "\n")
                #expect(lines.count == names.count, "\(found.log)")
                for name in names {
                    #expect(
                        lines.contains { $0.hasPrefix("larderd: \(home.directory)/\(name)") }, "\(name) in \(found.log)"
                    )
                }
                // A file that cannot be read is reported with its place in the settings.
                for (name, line) in [
                    ("image.token", 1), ("missing.json", 3), ("token", 4), ("ca", 4), ("pw", 5),
                ] {
                    let report = lines.first { $0.hasPrefix("larderd: \(home.directory)/\(name): ") }
                    #expect(report?.hasSuffix(" (named in \(home.settings):\(line))") == true, "\(found.log)")
                }
                let reload = try Command.run(
                    Products.agent, ["--check-settings", "--for-reload", "--settings", home.settings],
                    environment: home.environment)
                #expect(reload.end == .exit(0), "\(reload.log)")
                // Without a group larder on the host, there is one more line.
                let warnings = reload.log.split(separator: "\n").filter { $0.hasPrefix("larderd: warning: /") }
                #expect(warnings.count == names.count, "\(reload.log)")
                for name in names {
                    #expect(
                        warnings.contains { $0.hasPrefix("larderd: warning: \(home.directory)/\(name)") },
                        "\(name) in \(reload.log)")
                }
            }
        }

        @Test("an agent with --settings reads config.d next to that file instead of the config.d of the host")
        func trialAgent() throws {
            try AgentHome.with(settings: "{}") { home in
                try home.makeDirectory("etc/config.d")
                try home.write("etc/config.d/10.json", #"{"of": "the host"}"#)
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", #"{"of": "the trial"}"#)
                let agent = try home.start()
                #expect(try agent.call("config.get", ["of"])["value"] == "the trial")
                let layers = try agent.status()["layers"]?.elements.compactMap { $0["origin"]?.string } ?? []
                #expect(layers.contains("\(home.directory)/config.d"), "\(layers)")
                // A relative path of the settings file is resolved against the working directory.
                let check = try Command.run(
                    Products.agent, ["--check-settings", "--settings", "larder.json"], environment: home.environment,
                    directory: home.directory)
                #expect(check.end == .exit(0), "\(check.log)")
                try home.write("config.d/10.json", "{")
                #expect(
                    try Command.run(
                        Products.agent, ["--check-settings", "--settings", "larder.json"],
                        environment: home.environment, directory: home.directory
                    ).log.contains("config.d/10.json:1:2: "))
            }
        }

        @Test("a *.json5 file is a layer file, and explain reports the lines of its values")
        func json5() throws {
            try AgentHome.with(settings: "{}", starting: true) { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json5", "// limits\n{\n  search: {\n    limit: 15, // all hosts\n  },\n}\n")
                #expect(try home.larder("wait", "search.limit=15").text == "15\n")
                let explained = try JSONValue(parsing: try home.larder("explain", "search.limit", "--json").text)
                let host = explained["layers"]?.elements.first { $0["layer"] == "host" }
                #expect(host?["source"]?["file"]?.string == "\(home.directory)/config.d/10.json5")
                #expect(host?["source"]?["line"] == 4)
            }
        }

        @Test("an invalid layer file is a warning in status --check and in doctor")
        func exitStatuses() throws {
            try AgentHome.with(settings: "{}", starting: true) { home in
                #expect(try home.larder("status", "--check").status == home.healthyStatus)
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", #"{"search":{"limit": 15}, // comment"#)
                _ = try home.larder("refresh")
                let status = try home.larder("status", "--check")
                #expect(status.status == 12)
                #expect(status.text.contains("config.d/10.json:1:26: "))
                let json = try home.larder("status", "--check", "--json")
                #expect(json.status == 12)
                let check = try JSONValue(parsing: json.text)["check"]
                #expect(check?["headline"]?.string?.hasPrefix("warning: ") == true)
                #expect(check?["findings"]?.elements.contains { $0["level"] == "warning" } == true)
                #expect(try home.larder("status").status == 0)
                // doctor also runs --check-settings, for which the invalid layer file is an error.
                let doctor = try home.larder("doctor")
                #expect(doctor.status == 12, "\(doctor.text)")
                #expect(doctor.text.contains("config.d/10.json:1:26: "))
                try home.write("config.d/10.json", "{}")
                _ = try home.larder("refresh")
                #expect(try home.larder("status", "--check").status == home.healthyStatus)
            }
            try AgentHome.with { home in
                let status = try home.larder("status", "--check")
                #expect(status.status == 5)
            }
        }

        @Test("status --check exits with status 12 while a source that has never responded is polled")
        func silentSource() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            let remote = "{ http: { url: '\(origin.documentURL)', timeoutSeconds: 60 } }"
            try AgentHome.with(settings: "{ namespaces: { shop: { remote: \(remote) } } }", starting: true) { home in
                try origin.request()
                #expect(try home.larder("status", "--check", "-n", "shop").status == 12)
                #expect(try home.larder("status", "--check", "-n", "default").status == home.healthyStatus)
            }
        }

        @Test("status --check exits with status 1 if a namespace has no document")
        func failures() throws {
            try AgentHome.with(settings: "{ namespaces: { shop: { remote: { file: { path: '@/shop.json' } } } } }") {
                home in
                let client = try home.start().connect()
                _ = try home.larder("refresh", "-n", "shop")
                // Waits, because the file watcher may cause another attempt to read the file.
                try client.call("config.status") { status in
                    let shop = status["namespaces"]?.elements.first { $0["namespace"] == "shop" }
                    return shop?["state"] == "failed"
                }
                #expect(try home.larder("status", "--check").status == 1)
                #expect(try home.larder("status", "--check", "-n", "default").status == home.healthyStatus)
            }
        }
    }
}
