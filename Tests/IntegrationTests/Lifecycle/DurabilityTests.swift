import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Durability")
    struct DurabilityTests {
        @Test("a clean stop keeps revision and value in both durability modes", arguments: ["full", "relaxed"])
        func cleanStop(durability: String) throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: '\(durability)' } } }") { home in
                var last: JSONValue?
                for round in 1...3 {
                    let agent = try home.start()
                    let before = try agent.call("config.get")
                    if let last { #expect(before == last) }
                    try agent.call("config.set", ["path": "n", "value": .int(round)])
                    try agent.call("config.push", ["document": ["m": .int(round)], "version": .string("\(round)")])
                    last = try agent.call("config.get")
                    #expect(last?["value"] == ["m": .int(round), "n": .int(round)])
                    #expect(try agent.stop() == .exit(0))
                }
            }
        }

        @Test("changes acknowledged with full durability survive kill -9")
        func killed() throws {
            try AgentHome.with { home in
                var revision = 0
                for round in 1...5 {
                    let agent = try home.start()
                    if round > 1 {
                        let restored = try agent.call("config.get", ["n"])
                        #expect(restored["value"]?.int == round - 1)
                        #expect((restored["revision"]?.int ?? 0) >= revision)
                    }
                    revision = try agent.call("config.set", ["path": "n", "value": .int(round)])["revision"]?.int ?? 0
                    agent.kill()
                }
                #expect(revision < 1 << 53)
                #expect(try home.start().call("config.get", ["n"])["value"] == 5)
            }
        }

        @Test("a damaged generation (snapshot file) is replaced by the previous one and the changes in the journal")
        func damagedGeneration() throws {
            try AgentHome.with { home in
                let first = try home.start()
                try first.call("config.set", ["path": "n", "value": 1])
                #expect(try first.stop() == .exit(0))
                let second = try home.start()
                let set = try second.call("config.set", ["path": "n", "value": 2])
                #expect(try second.stop() == .exit(0))
                let generations = home.state + "/config/default/generations"
                let newest = try require(
                    try FileManager.default.contentsOfDirectory(atPath: generations).sorted().last, "generation")
                truncate(generations + "/" + newest, 40)
                let third = try home.start()
                let restored = try third.call("config.get", ["n"])
                #expect(restored["value"] == 2, "the change is not restored from the journal")
                #expect((restored["revision"]?.int ?? 0) >= (set["revision"]?.int ?? 0))
                try third.waitForLog(
                    "namespace default: the saved generation \(generations)/\(newest) is damaged and set aside")
            }
        }

        @Test("a value with a time to live expires, and subscribers get an event")
        func timeToLive() throws {
            try AgentHome.with(settings: "{ namespaces: { default: {}, loose: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                for namespace in ["default", "loose"] {
                    let name = JSONValue.string(namespace)
                    let client = try agent.connect()
                    try client.call("config.set", ["path": "n", "value": 1, "namespace": name])
                    try client.call("config.subscribe", ["path": "n", "namespace": name])
                    #expect(try client.event()["value"] == 1)
                    try client.call(
                        "config.set", ["path": "n", "value": 2, "ttlMilliseconds": 500, "namespace": name])
                    var event = try client.event()
                    // On a busy machine, the value can expire before its event is sent. The subscriber then gets only
                    // the event for the expiry, with one skipped snapshot.
                    if event["skipped"] == nil {
                        #expect(event["value"] == 2)
                        event = try client.event()
                    }
                    #expect(event["exists"] == false, "the previous value is restored")
                    #expect(try client.refusal("config.get", ["path": "n", "namespace": name]).name == "notFound")
                }
            }
        }

        @Test("a time to live continues across a restart", arguments: [true, false])
        func timeToLiveAcrossRestart(isKilled: Bool) throws {
            try AgentHome.with { home in
                let first = try home.start()
                try first.call("config.set", ["path": "n", "value": 1, "ttlMilliseconds": 1500])
                try first.call("config.set", ["path": "m", "value": 1])
                if isKilled { first.kill() } else { #expect(try first.stop() == .exit(0)) }
                let second = try home.start()
                let client = try second.connect()
                try client.call("config.subscribe", ["n"])
                var event = try client.event()
                while event["exists"] != false {
                    #expect(event["value"] == 1)
                    event = try client.event()
                }
                #expect(try client.call("config.get")["value"] == ["m": 1])
            }
        }

        @Test("a value that expires while the agent is down is never served again")
        func expiryWhileDown() throws {
            try AgentHome.with { home in
                let first = try home.start()
                try first.call("config.set", ["path": "n", "value": 1, "ttlMilliseconds": 100])
                let end = Date.now.addingTimeInterval(0.1)
                first.kill()
                // Sleeps, because no event reports that the time of day has passed.
                Thread.sleep(until: end.addingTimeInterval(0.01))
                let client = try home.start().connect()
                try client.call("config.subscribe", ["n"])
                #expect(try client.event()["exists"] == false)
            }
        }

        @Test("a set that cannot be written to disk fails and changes nothing, and later sets succeed")
        func fullDisk() throws {
            try AgentHome.with(settings: "{ namespaces: { default: {} } }") { home in
                // RLIMIT_FSIZE simulates a full disk: writes beyond it fail (setrlimit(2)). It is set after the start,
                // because sanitizers write files during the start.
                let agent = try home.start(wrapper: ["env", "--ignore-signal=XFSZ"])
                let limited = try Command.run("prlimit", ["--pid", "\(agent.pid)", "--fsize=290000"])
                #expect(limited.end == .exit(0), "\(limited.log)")
                let client = try agent.connect()
                try client.call("config.set", ["path": "n", "value": 1])
                let text = JSONValue.string(String(repeating: "x", count: 289_900))
                let refusal = try client.refusal("config.set", ["path": "large", "value": text])
                #expect(refusal.name == "storageFailed", "\(refusal)")
                // The status has a `writeError` only until the generation with the first set is written (LayerChangeTests).
                #expect(try client.call("config.get")["value"] == ["n": 1])
                let set = try client.call("config.set", ["path": "n", "value": 2])
                #expect(set["changed"] == true)
                try client.status { $0["writeError"]?.isNull == true }
                agent.kill()
                #expect(try home.start().call("config.get")["value"] == ["n": 2])
            }
        }

        @Test("status --check fails while a published configuration cannot be written to disk")
        func unwritableGeneration() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { host: { directory: '@/host' } } } }") { home in
                try home.makeDirectory("host")
                let agent = try home.start(wrapper: ["env", "--ignore-signal=XFSZ"])
                #expect(try home.larder("status", "--check").status == home.healthyStatus)
                let limited = try Command.run("prlimit", ["--pid", "\(agent.pid)", "--fsize=290000"])
                #expect(limited.end == .exit(0), "\(limited.log)")
                // Changes of files are published before they are on disk.
                try home.write("host/a.json", "{\"large\":\"\(String(repeating: "x", count: 400_000))\"}")
                let client = try agent.connect()
                try client.call("config.refresh")
                try client.status { $0["writeError"]?.isNull == false }
                #expect(try client.call("config.get", ["large"])["value"]?.string?.utf8.count == 400_000)
                let check = try home.larder("status", "--check")
                #expect(check.status == 1, "\(check)")
            }
        }
    }
}
