import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Layers and provenance")
    struct LayerTests {
        @Test("defaults from a file or a directory are watched, and the host layer takes precedence over them")
        func defaults() throws {
            let settings = """
                { namespaces: {
                  default: { defaults: { path: '@/defaults.json' }, host: { directory: '@/config.d' } },
                  many: { defaults: { path: '@/defaults.d' } },
                } }
                """
            try AgentHome.with(settings: settings) { home in
                for directory in ["config.d", "defaults.d"] { try home.makeDirectory(directory) }
                try home.write("defaults.json", #"{"a":1,"b":1,"c":1}"#)
                try home.write("config.d/10.json", #"{"b":2,"c":null}"#)
                try home.write("defaults.d/10.json", #"{"a":1,"b":1}"#)
                try home.write("defaults.d/20.json", #"{"b":2}"#)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["a": 1, "b": 2])
                #expect(try client.call("config.get", ["namespace": "many"])["value"] == ["a": 1, "b": 2])
                try home.write("defaults.json", #"{"a":3,"b":3,"d":3}"#)
                #expect(try client.event()["value"] == ["a": 3, "b": 2, "d": 3])

                // If the file is truncated or missing, its last content stays in use. The status reports the problem
                // until the file is valid.
                try #"{"a":"#.write(toFile: home.directory + "/defaults.json", atomically: false, encoding: .utf8)
                #expect(try client.refusal("config.refresh").name == "rejected")
                unlink(home.directory + "/defaults.json")
                #expect(try client.refusal("config.refresh").name == "rejected")
                let status = try agent.status()
                #expect(status["state"] == "stale")
                #expect(status["layers"]?[0]?["name"] == "defaults")
                #expect(status["layers"]?[0]?["problem"]?.string?.contains("defaults.json") == true, "\(status)")
                #expect(try client.call("config.get")["value"] == ["a": 3, "b": 2, "d": 3])
                try home.write("defaults.json", #"{"a":4}"#)
                try client.call("config.refresh")
                #expect(try client.call("config.get")["value"] == ["a": 4, "b": 2])
                #expect(try agent.status()["state"] == "fresh")
            }
        }

        @Test("if the defaults file is missing when the agent starts, the last content of the file is served as stale")
        func defaultsGoneAtStart() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { defaults: { path: '@/defaults.json' } } } }") {
                home in
                try home.write("defaults.json", #"{"a":1}"#)
                let first = try home.start()
                let revision = try first.call("config.get")["revision"]
                #expect(try first.stop() == .exit(0))
                unlink(home.directory + "/defaults.json")
                let second = try home.start()
                let current = try second.call("config.get")
                #expect(current["value"] == ["a": 1])
                #expect(current["revision"] == revision)
                #expect(current["state"] == "stale")
            }
        }

        @Test("a reload adds and removes locks, experiments and defaults")
        func reload() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { host: { directory: '@/config.d' } } } }") { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", #"{"n":1,"gone":null}"#)
                try home.write("defaults.json", #"{"d":1,"gone":1}"#)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.set", ["path": "n", "value": 5])
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["n": 5])
                try home.write(
                    settings: """
                        { namespaces: { default: {
                          host: { directory: '@/config.d' }, defaults: { path: '@/defaults.json' }, locks: ['n'],
                          experiments: { overlays: [{ name: 'all', percentage: 100, values: { e: 1 } }] },
                        } } }
                        """)
                try agent.reload()
                while try client.event()["value"] != ["n": 1, "e": 1, "d": 1] {}
                #expect(try client.refusal("config.set", ["path": "n", "value": 6]).name == "denied")
                try home.write(settings: "{ namespaces: { default: { host: { directory: '@/config.d' } } } }")
                try agent.reload()
                while try client.event()["value"] != ["n": 5] {}
                try client.call("config.set", ["path": "n", "value": 6])
            }
        }

        @Test("the denial of a set at a locked path names the settings file, and the file and line of the value")
        func lockRefusal() throws {
            let settings = "{ namespaces: { default: { host: { directory: '@/config.d' }, locks: ['search.limit'] } } }"
            try AgentHome.with(settings: settings) { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/10-base.json", #"{"search":{"limit":1}}"#)
                try home.write("config.d/20-site.json", "{\n  \"search\": {\n    \"limit\": 2\n  }\n}\n")
                let client = try home.start().connect()
                let refusal = try client.refusal("config.set", ["path": "search", "value": ["limit": 3]])
                #expect(refusal.name == "denied")
                #expect(
                    refusal.detail
                        == "\"search.limit\" is locked in \(home.settings) to the value in "
                        + "\(home.directory)/config.d/20-site.json:3; change it there, or remove the lock")
            }
        }

        @Test("config.explain names the process that set a value, even after a kill and a restart")
        func peers() throws {
            try AgentHome.with { home in
                let first = try home.start()
                try first.call("config.set", ["path": "n", "value": 1, "ttlMilliseconds": 3_600_000])
                try first.call("config.push", ["document": ["n": 0], "version": "7"])
                let me = JSONValue.int(Int(getpid()))
                func check(_ agent: AgentProcess) throws {
                    let layers = try agent.call("config.explain", ["path": "n"])["layers"]
                    let (remote, override) = (layers?[2]?["source"], layers?[4]?["source"])
                    #expect(override?["kind"] == "set")
                    #expect(override?["peer"]?["pid"] == me)
                    #expect(override?["peer"]?["uid"] == .int(Int(getuid())))
                    #expect(override?["peer"]?["command"]?.string?.isEmpty == false)
                    #expect(override?["expiresAt"]?.string != nil)
                    #expect(remote?["kind"] == "push")
                    #expect(remote?["peer"]?["pid"] == me)
                    #expect(remote?["version"] == "7")
                }
                try check(first)
                first.kill()
                try check(try home.start())
            }
        }

        @Test("experiments use the machine ID as their unit, unless the settings specify another one")
        func units() throws {
            let machine = try String(contentsOfFile: "/etc/machine-id", encoding: .utf8)
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let overlays = """
                overlays: [{ name: 'here', units: ['\(machine)'], values: { here: true } },
                           { name: 'till', units: ['till-7'], values: { till: true } }]
                """
            let settings = """
                { namespaces: { default: { experiments: { \(overlays) } },
                                till: { experiments: { unit: 'till-7', \(overlays) } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let client = try home.start().connect()
                #expect(try client.call("config.get")["value"] == ["here": true])
                #expect(try client.call("config.get", ["namespace": "till"])["value"] == ["till": true])
            }
        }
    }
}
