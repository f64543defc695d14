import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("config.explain for remote sources")
    struct ExplainedSourcesTests {
        private func source(_ client: LineClient, _ path: String, layer: Int = 2) throws -> JSONValue {
            let explanation = try client.call("config.explain", ["path": .string(path)])
            return try require(explanation["layers"]?[layer]?["source"], "source in \(explanation)")
        }

        @Test("config.explain names the etcd key that holds a value, or the prefix if several keys form the value")
        func etcd() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                try gateway.put("/c/db", #"{"host":"h"}"#)
                try gateway.put("/c/x/y", "2")
                try gateway.put("/c/x/z", "3")
                let (agent, client) = try home.startFollowing([etcd])
                let value: JSONValue = ["a": 1, "db": ["host": "h"], "x": ["y": 2, "z": 3]]
                while try client.event()["value"] != value {}
                let location = try agent.status()["upstream"]?["location"]
                for (path, key) in [("a", "/c/a"), ("db.host", "/c/db"), ("x", "/c/x/"), ("x.y", "/c/x/y")] {
                    let source = try source(client, path)
                    #expect(source["kind"] == "etcd")
                    #expect(source["key"] == .string(key), "\(path)")
                    #expect(source["location"] == location)
                    #expect(source["version"]?.string != nil)
                }
            }
        }

        @Test(
            "config.explain names version and URL (without query) of an HTTP value, even of one from an experiment arm"
        )
        func http() throws {
            let document = #"{"version":"7","n":1,"arms":[{"name":"blue","percentage":100,"values":{"n":2}}]}"#
            let origin = try RawOrigin.listening(.status("200 OK", document))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: {
                  remote: { http: { url: '\(origin.documentURL)?key=hidden' } }, experiments: { member: 'arms' },
                } } }
                """
            try AgentHome.with(settings: settings) { home in
                let client = try home.start().connect()
                try client.call("config.refresh")
                #expect(try client.call("config.get")["value"] == ["version": "7", "n": 2])
                let expected: JSONValue = ["kind": "http", "location": .string(origin.documentURL), "version": "7"]
                #expect(try source(client, "n") == expected)
                let arm = try source(client, "n", layer: 3)
                #expect(arm["experiment"] == "blue")
                #expect(
                    arm["kind"] == "http" && arm["location"] == .string(origin.documentURL) && arm["version"] == "7")
            }
        }

        @Test("config.explain names file and line of a value from a remote directory of files")
        func files() throws {
            let settings = "{ namespaces: { default: { remote: { file: { path: '@/flags' } } } } }"
            try AgentHome.with(settings: settings) { home in
                try home.makeDirectory("flags")
                try home.write("flags/10.json", "{\n\"a\": 1}")
                try home.write("flags/20.json", "{\n\n\"b\": {\n\"c\": [\n1, {\n\"d\": 2}]}}")
                let client = try home.start().connect()
                try client.call("config.refresh")
                for (path, file, line) in [("a", "10.json", 2), ("b.c.1.d", "20.json", 6), ("b.c", "20.json", 4)] {
                    let source = try source(client, path)
                    #expect(source["kind"] == "file")
                    #expect(source["location"] == .string(home.directory + "/flags"))
                    #expect(source["file"] == .string("\(home.directory)/flags/\(file)"))
                    #expect(source["line"] == .int(line))
                }
            }
        }
    }
}
