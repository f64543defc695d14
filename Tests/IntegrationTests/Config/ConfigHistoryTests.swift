import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("History and rollback")
    struct ConfigHistoryTests {
        private func history(_ agent: AgentProcess) throws -> [JSONValue] {
            Array(try require(try agent.call("config.history")["generations"], "generations").elements)
        }

        /// The document of a revision in the history, computed by applying the patch of `config.diff` to the current
        /// document.
        private func content(_ agent: AgentProcess, of revision: Int) throws -> JSONValue {
            let current = try agent.call("config.get")
            let patch = try agent.call("config.diff", ["from": current["revision"] ?? 0, "to": .int(revision)])["patch"]
            return MergePatch.apply(try require(patch, "patch"), to: current["value"])
        }

        @Test("the history survives a stop and a kill -9 of the agent, and names the process that caused each snapshot")
        func restarts() throws {
            try AgentHome.with { home in
                var expected: [Int: JSONValue] = [:]
                for round in 0..<6 {
                    let agent = try home.start()
                    let known = try history(agent)
                    for snapshot in known {
                        let revision = snapshot["revision"]?.int ?? 0
                        if let value = expected[revision] { #expect(try content(agent, of: revision) == value) }
                    }
                    // The history begins with all acknowledged snapshots. It has the initial snapshot too, unless the
                    // agent stopped before writing that.
                    let acknowledged = expected.keys.sorted(by: >).prefix(16)
                    let revisions = known.map { $0["revision"]?.int ?? 0 }
                    #expect(revisions.starts(with: acknowledged))
                    let client = try agent.connect()
                    for number in 1...7 {
                        let revision = try client.call("config.set", ["path": "n", "value": .int(round * 10 + number)])
                        expected[revision["revision"]?.int ?? 0] = ["n": .int(round * 10 + number)]
                    }
                    let newest = try history(agent)[0]
                    #expect(newest["causes"]?.count == 1)
                    #expect(newest["causes"]?[0]?["kind"] == "set")
                    #expect(newest["causes"]?[0]?["path"] == "n")
                    #expect(newest["causes"]?[0]?["peer"]?["pid"] == .int(Int(getpid())))
                    #expect(newest["causes"]?[0]?["peer"]?["uid"] == .int(Int(getuid())))
                    if round.isMultiple(of: 2) { agent.kill() } else { #expect(try agent.stop() == .exit(0)) }
                }
            }
        }

        @Test("pipelined changes share snapshots, and the history lists the cause of each change once")
        func sharedSnapshots() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let client = try agent.connect()
                let requests = try (0..<64).map {
                    try client.request("config.set", ["path": .string("n\($0)"), "value": 1])
                }
                for request in requests { try client.reply(to: request) }
                let causes = try history(agent).map { snapshot in snapshot["causes"].map { Array($0.elements) } ?? [] }
                let paths = causes.joined().compactMap { $0["path"]?.string }
                #expect(Set(paths).count == paths.count, "a change is listed more than once")
                #expect(causes[0].last?["path"] == "n63")
            }
        }

        @Test("a rollback survives restarts and kill -9, until the source has a newer version than the one rolled back")
        func rollbackAcrossRestarts() throws {
            let origin = try RawOrigin.listening(.document(#"{"version":"1","n":1}"#, etag: "a"))
            defer { origin.stop() }
            let settings = """
                { namespaces: { default: { remote: { http: { url: "\(origin.documentURL)", intervalSeconds: 86400 } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                var agent = try home.start()
                // The agent requests the document at its start. No other poll is due before the restarts.
                try origin.request()
                let good = try require(try agent.call("config.refresh")["revision"], "revision")
                origin.answer(.document(#"{"version":"2","n":2}"#, etag: "b"))
                #expect(try agent.call("config.refresh")["changed"] == true)
                let rollback = try agent.call("config.rollback", ["revision": good])
                #expect(rollback["changed"] == true && rollback["held"] == true)
                for isKill in [true, false, true] {
                    if isKill { agent.kill() } else { #expect(try agent.stop() == .exit(0)) }
                    agent = try home.start()
                    #expect(try agent.call("config.refresh")["upstreamVersion"] == "2")
                    #expect(try agent.call("config.get", ["path": "n"])["value"] == 1)
                    #expect(try agent.status()["hold"]?["rejectedVersion"] == "2")
                    #expect(try agent.status()["hold"]?["revision"] == good)
                }
                origin.answer(.document(#"{"version":"3","n":3}"#, etag: "c"))
                #expect(try agent.call("config.refresh")["upstreamVersion"] == "3")
                #expect(try agent.call("config.get", ["path": "n"])["value"] == 3)
                #expect(try agent.status()["hold"] == .null)
                agent.kill()
                agent = try home.start()
                #expect(try agent.call("config.refresh")["upstreamVersion"] == "3")
                #expect(try agent.call("config.get", ["path": "n"])["value"] == 3)
            }
        }

        @Test(
            "without a remote source, a rollback keeps host layer changes unpublished until a release or forced refresh"
        )
        func rollbackOfHostLayer() throws {
            try AgentHome.with(settings: #"{ namespaces: { default: { host: { directory: "@/host" } } } }"#) { home in
                try home.makeDirectory("host")
                try home.write("host/10.json", #"{"h":1}"#)
                let agent = try home.start()
                let good = try require(try agent.call("config.get")["revision"], "revision")
                let client = try agent.connect()
                for force in [true, false] {
                    try home.write("host/10.json", #"{"h":2}"#)
                    try client.call("config.wait", ["path": "h", "equals": 2])
                    #expect(try client.call("config.rollback", ["revision": good])["held"] == true)
                    #expect(try client.call("config.refresh")["changed"] == false)
                    #expect(try client.call("config.get", ["path": "h"])["value"] == 1)
                    if force {
                        try client.call("config.refresh", ["force": true])
                    } else {
                        try client.call("config.rollback", ["release": true])
                    }
                    #expect(try client.call("config.get", ["path": "h"])["value"] == 2)
                }
            }
        }
    }
}
