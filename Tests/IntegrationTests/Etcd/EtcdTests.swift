import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("etcd as a source")
    struct EtcdTests {
        @Test("keys below the prefix form a document; puts and deletions change it; its version is etcd's revision")
        func keys() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/search/limit", "20")
                try gateway.put("/c/search/engines", #"["a","b"]"#)
                try gateway.put("/config", "not ours")
                let first = try gateway.put("/c/banner", #""hello""#)
                let (agent, client) = try home.startFollowing([etcd])
                let event = try client.event()
                #expect(event["value"] == ["search": ["limit": 20, "engines": ["a", "b"]], "banner": "hello"])
                // Waits, because the state becomes `fresh` only after the snapshot has been published.
                try client.call("config.status") { $0["namespaces"]?[0]?["state"] == "fresh" }
                let status = try agent.status()
                #expect(status["upstream"]?["kind"] == "etcd")
                #expect(status["upstream"]?["location"]?.string == "\(etcd.url) prefix /c/")
                #expect(status["upstream"]?["version"]?.string == "\(first)")

                let explanation = try client.call("config.explain", ["search.limit"])
                let remote = explanation["layers"]?.elements.first { $0["layer"] == "remote" }
                #expect(remote?["source"]?["kind"] == "etcd")
                #expect(remote?["source"]?["key"] == "/c/search/limit")
                #expect(remote?["source"]?["version"]?.string == "\(first)")

                try gateway.put("/c/search/limit", "30")
                #expect(try client.event()["value"]?["search"]?["limit"] == 30)
                let last = try gateway.delete("/c/banner")
                #expect(try client.event()["value"] == ["search": ["limit": 30, "engines": ["a", "b"]]])
                #expect(try agent.status()["upstream"]?["version"]?.string == "\(last)")
                // A key outside the prefix changes nothing, so a refresh finds no new document.
                try gateway.put("/config", "still not ours")
                #expect(try client.call("config.refresh")["notModified"] == true)
            }
        }

        @Test("several prefixes are merged in order at one revision, and explain names the key")
        func prefixes() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                // More keys than fit in one page of the agent.
                for number in 0..<510 { try gateway.put("/common/many/k\(number)", "\(number)") }
                try gateway.put("/common/search/limit", "20")
                try gateway.put("/common/search/engine", #""x""#)
                let first = try gateway.put("/hosts/a/search/limit", "5")
                try home.write(
                    settings: """
                        { report: { labels: { host: 'a' } }, namespaces: { default: { remote: { etcd: { endpoints: ['\(etcd.url)'],
                          prefixes: ['/common', '/hosts/{label:host}/'] } } } } }
                        """)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["search"])
                try client.events(until: ["limit": 5, "engine": "x"])
                try client.call("config.status") { $0["namespaces"]?[0]?["state"] == "fresh" }
                #expect(try client.call("config.get", ["many.k509"])["value"] == 509)
                let status = try agent.status()
                #expect(status["upstream"]?["location"]?.string == "\(etcd.url) prefixes /common/,/hosts/a/")
                #expect(status["upstream"]?["version"]?.string == "\(first)")
                func key(_ path: String) throws -> String? {
                    let explanation = try client.call("config.explain", [.string(path)])
                    return explanation["layers"]?.elements.first { $0["layer"] == "remote" }?["source"]?["key"]?.string
                }
                #expect(try key("search.limit") == "/hosts/a/search/limit")
                #expect(try key("search.engine") == "/common/search/engine")
                // Each prefix is watched.
                try gateway.put("/common/search/engine", #""y""#)
                try client.events(until: ["limit": 5, "engine": "y"])
                try gateway.delete("/hosts/a/search/limit")
                try client.events(until: ["limit": 20, "engine": "y"])
                let last = try gateway.put("/hosts/a/search/engine", "null")
                try client.events(until: ["limit": 20])
                #expect(try agent.status()["upstream"]?["version"]?.string == "\(last)")
                try gateway.put("/hosts/b/search/limit", "1")
                #expect(try client.call("config.refresh")["notModified"] == true)
            }
        }

        @Test("a single key can hold the whole document, and the format `text` keeps every value as a string")
        func forms() throws {
            try AgentHome.with(settings: "{}") { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c", #"{"a":{"b":[1]}}"#)
                try gateway.put("/c/n", "1")
                try home.write(
                    settings: """
                        { namespaces: { whole: { remote: { etcd: { endpoints: ["\(etcd.url)/"], key: "/c" } } },
                        text: { remote: { etcd: { endpoints: ["\(etcd.url)"], prefix: "/c", format: "text" } } } } }
                        """)
                let client = try home.start().connect()
                try client.call("config.subscribe", ["namespace": "whole"])
                #expect(try client.event()["value"] == ["a": ["b": [1]]])
                try client.call("config.subscribe", ["namespace": "text"])
                #expect(try client.event()["value"] == ["n": "1"])
                try gateway.put("/c", #"{"a":2}"#)
                #expect(try client.event()["value"] == ["a": 2])
            }
        }

        @Test("keys that span several pages are all read")
        func pages() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put((0..<1234).map { ("/c/group\($0 % 10)/key\($0)", "\($0)") })
                let (_, client) = try home.startFollowing([etcd])
                let value = try require(try client.event()["value"], "value")
                #expect(value.members.reduce(0) { $0 + $1.value.count } == 1234)
                #expect(value["group4"]?["key1234"] == nil && value["group3"]?["key1233"] == 1233)
            }
        }

        @Test("keys that one etcd transaction changes are published together, whether read in pages or watched")
        func transactions() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put((0..<1100).map { ("/c/k\($0)", "0") })
                try gateway.put([("/c/a", "0"), ("/c/z", "0")])
                let (_, client) = try home.startFollowing([etcd])
                var value = try require(try client.event()["value"], "value")
                for round in 1...10 {
                    let refresh = try client.request("config.refresh")
                    for step in 0..<10 {
                        let text = "\(round * 10 + step)"
                        try gateway.put([("/c/a", text), ("/c/z", text)])
                    }
                    _ = try client.reply(to: refresh)
                }
                while value["a"] != 109 {
                    value = try require(try client.event()["value"], "value")
                    #expect(value["a"] == value["z"] && value.count == 1102)
                }
            }
        }

        @Test("after 1,000 rapid puts the last values are served, and revisions only increase")
        func rapidPuts() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/n", "0")
                let (agent, client) = try home.startFollowing([etcd])
                var last = try client.event()
                var revision = 0
                for number in 1...1000 {
                    revision = try gateway.put("/c/\(number % 7 == 0 ? "n" : "k\(number % 50)")", "\(number)")
                }
                revision = try gateway.put("/c/end", "true")
                while last["value"]?["end"] != true {
                    let event = try client.event()
                    #expect((event["revision"]?.int ?? 0) > (last["revision"]?.int ?? 0))
                    #expect(event["value"]?["n"]?.int ?? 0 >= last["value"]?["n"]?.int ?? 0)
                    last = event
                }
                var expected: [(String, JSONValue)] = [("n", 994), ("end", true)]
                for key in 0..<50 {
                    let number = (1...1000).last { $0 % 50 == key && $0 % 7 != 0 }
                    expected.append(("k\(key)", .int(number ?? 0)))
                }
                #expect(last["value"] == .object(expected))
                #expect(try agent.status()["upstream"]?["version"]?.string == "\(revision)")
            }
        }

        @Test(
            "if one key is the parent of another, the document is rejected with both names until one is deleted")
        func conflict() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                let (agent, client) = try home.startFollowing([etcd])
                #expect(try client.event()["value"] == ["a": 1])
                try gateway.put("/c/a/b", "2")
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == "rejected")
                #expect(refusal.detail.contains(#""/c/a" is both a value and the parent of "/c/a/b""#), "\(refusal)")
                #expect(try client.call("config.get")["value"] == ["a": 1])
                #expect(try agent.status()["rejected"]?.isNull == false)
                try gateway.delete("/c/a")
                #expect(try client.event()["value"] == ["a": ["b": 2]])
                try client.call("config.status") { $0["namespaces"]?[0]?["rejected"]?.isNull == true }
            }
        }

        @Test(
            "a refresh that finds no keys fails unless forced; the empty document of a forced one survives a restart"
        )
        func emptyPrefix() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                let (agent, client) = try home.startFollowing([etcd])
                #expect(try client.event()["value"] == ["a": 1])
                try gateway.delete("/c/")
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == "rejected")
                #expect(refusal.detail.contains("no key with a value begins with \"/c/\""), "\(refusal)")
                #expect(try client.call("config.get", ["a"])["value"] == 1)
                #expect(try client.call("config.refresh", ["force": true])["changed"] == true)
                #expect(try client.event()["value"] == [:])
                #expect(try client.call("config.refresh")["notModified"] == true)
                #expect(try agent.stop() == .exit(0))
                let second = try home.start()
                #expect(try second.call("config.refresh")["notModified"] == true)
                try gateway.put("/c/b", "2")
                let again = try second.connect()
                try again.call("config.refresh")
                #expect(try again.call("config.get")["value"] == ["b": 2])
            }
        }
    }
}

extension AgentHome {
    /// Settings with the keys below `/c/` as the source of the default namespace.
    /// - Parameter more: Additional members of `etcd`.
    static func etcdSettings(_ servers: [EtcdServer], _ more: String = "") -> String {
        let endpoints = servers.map { "\"\($0.url)\"" }.joined(separator: ", ")
        return
            "{ namespaces: { default: { remote: { etcd: { endpoints: [\(endpoints)], prefix: '/c/', \(more) } } } } }"
    }

    /// Starts an agent with these servers as its source, and a client that subscribes to the whole document.
    func startFollowing(_ servers: [EtcdServer], _ more: String = "") throws -> (AgentProcess, LineClient) {
        try write(settings: Self.etcdSettings(servers, more))
        let agent = try start()
        let client = try agent.connect()
        try client.call("config.subscribe")
        return (agent, client)
    }
}
