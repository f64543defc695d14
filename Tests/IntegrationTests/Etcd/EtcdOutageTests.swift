import Foundation
import LarderJSON
import TestSupport
import Testing

/// A response that a healthy etcd never sends, and the error that the agent must report.
struct BadEtcdAnswer: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let answer: RawOrigin.Answer
    /// A text that the `detail` of the error must contain.
    let message: String
    var error = "upstreamFailed"

    /// The response of etcd 3.4 to a range request: the key `/c/a` with a value.
    static func good(_ value: Int, revision: Int) -> RawOrigin.Answer {
        let text = Data("\(value)".utf8).base64EncodedString()
        let header = #""header":{"cluster_id":"1","member_id":"2","revision":"\#(revision)","raft_term":"2"}"#
        return .document(
            "{\(header),\"kvs\":[{\"key\":\"L2MvYQ==\",\"mod_revision\":\"\(revision)\",\"value\":\"\(text)\"}]}")
    }

    static let all = [
        Self(testDescription: "HTML", answer: .document("<html>"), message: "is not an etcd response"),
        Self(testDescription: "another JSON", answer: .document("{}"), message: "is not an etcd response"),
        Self(testDescription: "no gateway", answer: .status("404 Not Found", "x"), message: "no etcd gateway at /v3"),
        Self(testDescription: "a proxy's error", answer: .status("502 Bad Gateway", "<html>"), message: "502"),
        Self(
            testDescription: "an error of 3.4",
            answer: .status("503 Service Unavailable", #"{"error":"no leader","message":"no leader","code":14}"#),
            message: "reported: no leader"),
        Self(
            testDescription: "an error of 3.6",
            answer: .status("503 Service Unavailable", #"{"code":14,"message":"no leader","details":[]}"#),
            message: "reported: no leader"),
        Self(
            testDescription: "an invalid token",
            answer: .status("401 Unauthorized", #"{"code":16,"message":"etcdserver: invalid auth token"}"#),
            message: "check the user and password"),
        Self(
            testDescription: "a key that is not base64",
            answer: .document(#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[{"key":"%","mod_revision":"1"}]}"#),
            message: "is not an etcd response"),
        Self(
            testDescription: "no key",
            answer: .document(#"{"header":{"cluster_id":"1","revision":"9"}}"#), message: "no key with a value",
            error: "rejected"),
        Self(
            testDescription: "a truncated response",
            answer: .text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\":", thenClose: true),
            message: "closed the connection after"),
        Self(testDescription: "silence", answer: .hang, message: "stays in use"),
    ]
}

extension Integration {
    @Suite("Failures of etcd")
    struct EtcdOutageTests {
        @Test(
            "a bad response is reported, the last good snapshot stays, and the next good response is accepted",
            arguments: BadEtcdAnswer.all)
        func badAnswer(_ bad: BadEtcdAnswer) throws {
            let origin = try RawOrigin.listening(BadEtcdAnswer.good(1, revision: 5))
            defer { origin.stop() }
            // `timeoutSeconds` is short only in the case `silence`, in which the timeout must expire. In the other
            // cases, a busy machine must respond before the timeout.
            let timeout = bad.testDescription == "silence" ? 5 : 60
            let settings =
                "{ namespaces: { default: { remote: { etcd: { endpoints: ['http://127.0.0.1:\(origin.port)'], "
                + "prefix: '/c/', timeoutSeconds: \(timeout) } } } } }"
            try AgentHome.with(settings: settings) { home in
                let client = try home.start().connect()
                #expect(try client.call("config.refresh")["upstreamVersion"] == "5")
                origin.answer(bad.answer)
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == bad.error)
                #expect(refusal.detail.contains(bad.message), "\(refusal)")
                #expect(try client.call("config.get")["value"] == ["a": 1])
                origin.answer(BadEtcdAnswer.good(2, revision: 6))
                #expect(try client.call("config.refresh")["upstreamVersion"] == "6")
                #expect(try client.call("config.get")["value"] == ["a": 2])
            }
        }

        @Test("the agent finds the only working endpoint, whatever the order of the endpoints")
        func failover() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                let garbage = try RawOrigin.listening(.document("<html>"))
                defer {
                    etcd.kill()
                    garbage.stop()
                }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                let (refusingSocket, refusingPort) = try LoopbackPort.reserve()
                defer { close(refusingSocket) }
                var endpoints = [etcd.url, "http://127.0.0.1:\(garbage.port)", "http://127.0.0.1:\(refusingPort)"]
                for number in 2...4 {
                    try home.write(
                        settings: "{ namespaces: { default: { remote: { etcd: { prefix: '/c', endpoints: "
                            + "[\(endpoints.map { "'\($0)'" }.joined(separator: ","))] } } } } }")
                    let agent = try home.start()
                    let client = try agent.connect()
                    try client.call("config.refresh")
                    try client.call("config.subscribe")
                    #expect(try client.event()["value"] == ["a": .int(number - 1)])
                    try gateway.put("/c/a", "\(number)")
                    #expect(try client.event()["value"] == ["a": .int(number)])
                    #expect(try agent.stop() == .exit(0))
                    // Each agent starts without state, because an agent that restores a document delays its first
                    // watch.
                    try Command.run("rm", ["-rf", home.state])
                    endpoints.append(endpoints.removeFirst())
                }
            }
        }

        @Test("if etcd is down when the agent starts, the agent reports it and reads the keys once etcd runs")
        func downAtStart() throws {
            try AgentHome.with { home in
                let (client, peer) = try (LoopbackPort.free(), LoopbackPort.free())
                let etcd = EtcdServer(
                    "a", in: home.directory, ports: (client, peer, 0), cluster: "a=http://127.0.0.1:\(peer)")
                defer { etcd.kill() }
                let (agent, subscriber) = try home.startFollowing([etcd])
                #expect(try subscriber.refusal("config.refresh").name == "upstreamFailed")
                #expect(["failed", "refreshing"].contains(try agent.status()["state"]?.string))
                try etcd.start()
                try EtcdGateway(port: etcd.clientPort).put("/c/a", "1")
                #expect(try subscriber.event()["value"] == ["a": 1])
                #expect(try EtcdGateway(port: etcd.clientPort).put("/c/a", "2") > 0)
                #expect(try subscriber.event()["value"] == ["a": 2])
            }
        }

        @Test("the namespace is stale while etcd is down, and puts after the restart of etcd are published")
        func restart() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "0")
                let (agent, client) = try home.startFollowing([etcd])
                #expect(try client.event()["value"] == ["a": 0])
                for round in 1...3 {
                    etcd.kill()
                    try client.call("config.status") { $0["namespaces"]?[0]?["state"] == "stale" }
                    #expect(try agent.status()["lastError"]?["name"] == "upstreamFailed")
                    #expect(try client.call("config.get", ["a"])["value"]?.int == round - 1)
                    try etcd.start()
                    try gateway.put("/c/a", "\(round)")
                    #expect(try client.event()["value"] == ["a": .int(round)])
                    try client.call("config.status") { $0["namespaces"]?[0]?["state"] == "fresh" }
                }
                #expect(try agent.status()["lastError"]?.isNull == true)
            }
        }

        @Test("after an outage, puts and deletions made during it are applied, even if their revisions were compacted")
        func compactionDuringOutage() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put([("/c/kept", "1"), ("/c/gone", "1"), ("/c/changed", "1")])
                let relay = try Relay(to: etcd.clientPort)
                defer { relay.cut() }
                let (agent, client) = try home.startFollowing(relay)
                #expect(try client.event()["value"] == ["kept": 1, "gone": 1, "changed": 1])
                relay.cut()
                try client.call("config.status") { $0["namespaces"]?[0]?["state"] == "stale" }
                try gateway.delete("/c/gone")
                for number in 2...50 { try gateway.put("/c/changed", "\(number)") }
                let last = try gateway.put("/c/new", "1")
                try gateway.compact(last)
                try relay.start()
                #expect(try client.event()["value"] == ["kept": 1, "changed": 50, "new": 1])
                #expect(try agent.status()["upstream"]?["version"]?.string == "\(last)")
                try gateway.put("/c/new", "2")
                #expect(try client.event()["value"]?["new"] == 2)
            }
        }

        @Test("a refresh detects a watch whose connection is open but dead, and the watch is replaced")
        func deadWatch() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                let relay = try Relay(to: etcd.clientPort)
                defer { relay.cut() }
                let (_, client) = try home.startFollowing(relay, "timeoutSeconds: 1")
                #expect(try client.event()["value"] == ["a": 1])
                try gateway.put("/c/a", "2")
                #expect(try client.event()["value"] == ["a": 2])
                try relay.freeze()
                try gateway.put("/c/a", "3")
                // A refresh can also use a frozen connection. Such a refresh fails, and the next refresh opens a new
                // connection.
                try retrying { try client.call("config.refresh") }
                #expect(try client.event()["value"] == ["a": 3])
                try gateway.put("/c/a", "4")
                #expect(try client.event()["value"] == ["a": 4])
            }
        }

        @Test("the agent follows etcd after the loss of the cluster's leader, whichever member it watches")
        func leaderLoss() throws {
            try AgentHome.with { home in
                let servers = try EtcdServer.cluster(in: home.directory)
                defer { for server in servers { server.kill() } }
                let first = EtcdGateway(port: servers[0].clientPort)
                try first.put("/c/a", "0")
                // One namespace per member, so that one of the namespaces watches the leader.
                var settings = "{ namespaces: {"
                for server in servers {
                    settings += "\(server.name): { remote: { etcd: { endpoints: ["
                    let order = [server] + servers.filter { $0 !== server }
                    settings += order.map { "\"\($0.url)\"" }.joined(separator: ",") + "], prefix: '/c' } } },"
                }
                try home.write(settings: settings + "} }")
                let client = try home.start().connect()
                for server in servers {
                    try client.call("config.subscribe", ["namespace": .string(server.name)])
                    #expect(try client.event()["value"] == ["a": 0])
                }
                // On a busy machine, the members may elect another leader at any time.
                let leader = try retrying { try require(servers.first { try $0.isLeader() }, "leader") }
                leader.kill()
                let other = EtcdGateway(port: try require(servers.first { $0 !== leader }, "follower").clientPort)
                try retrying { try other.put("/c/a", "1") }
                for _ in servers { #expect(try client.event()["value"] == ["a": 1]) }
                try retrying { try other.put("/c/a", "2") }
                for _ in servers { #expect(try client.event()["value"] == ["a": 2]) }
                try leader.start()
                try retrying { try other.put("/c/a", "3") }
                for _ in servers { #expect(try client.event()["value"] == ["a": 3]) }
            }
        }

        @Test(
            "another cluster at the endpoint is accepted; an older state of the same cluster only by a forced refresh"
        )
        func restoredBackups() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                let moved = etcd.moved(toToken: "another-cluster")
                defer {
                    etcd.kill()
                    moved.kill()
                }
                let gateway = EtcdGateway(port: etcd.clientPort)
                for number in 1...20 { try gateway.put("/c/a", "\(number)") }
                let (agent, client) = try home.startFollowing([etcd])
                #expect(try client.event()["value"] == ["a": 20])

                try etcd.destroy()
                try moved.start()
                let revision = try gateway.put("/c/b", "1")
                #expect(try client.event()["value"] == ["b": 1])
                #expect(try agent.status()["upstream"]?["version"]?.string == "\(revision)")
                try agent.waitForLog("another cluster")
                for number in 2...20 { try gateway.put("/c/b", "\(number)") }
                while try client.event()["value"] != ["b": 20] {}

                try moved.destroy()
                try moved.start()
                try gateway.put("/c/b", "0")
                try client.call("config.status") { $0["namespaces"]?[0]?["rejected"]?["version"]?.string != nil }
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == "rejected")
                #expect(refusal.detail.contains("is older than"), "\(refusal)")
                #expect(try client.call("config.get")["value"] == ["b": 20])
                #expect(try client.call("config.refresh", ["force": true])["changed"] == true)
                #expect(try client.event()["value"] == ["b": 0])
                try gateway.put("/c/b", "1")
                #expect(try client.event()["value"] == ["b": 1])
            }
        }
    }
}

extension AgentHome {
    fileprivate func startFollowing(_ relay: Relay, _ more: String = "") throws -> (AgentProcess, LineClient) {
        try write(
            settings: "{ namespaces: { default: { remote: { etcd: { endpoints: ['http://127.0.0.1:\(relay.port)'], "
                + "prefix: '/c', \(more) } } } } }")
        let agent = try start()
        let client = try agent.connect()
        try client.call("config.subscribe")
        return (agent, client)
    }
}
