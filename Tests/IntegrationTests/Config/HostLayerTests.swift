import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Host layer")
    struct HostLayerTests {
        private static let settings = "{ namespaces: { default: { host: { directory: '@/config.d' } } } }"

        /// Runs `body` with an agent whose host layer is `{"n":0,"m":0}`, and a client that subscribes to the document.
        private func withFiles(_ body: (AgentHome, AgentProcess, LineClient) throws -> Void) throws {
            try AgentHome.with(settings: Self.settings) { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/10-base.json", #"{"n":0,"m":0}"#)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["n": 0, "m": 0])
                try body(home, agent, client)
            }
        }

        @Test(
            "the files of the layer are merged in the order of their names; edits, new files and removals are published"
        )
        func edits() throws {
            try withFiles { home, _, client in
                try home.write("config.d/20-more.json", #"{"n":1}"#)
                #expect(try client.event()["value"] == ["n": 1, "m": 0])
                try #"{"n":2}"#.write(
                    toFile: home.directory + "/config.d/20-more.json", atomically: false, encoding: .utf8)
                while try client.event()["value"] != ["n": 2, "m": 0] {}
                try home.write("config.d/.hidden.json", #"{"n":9}"#)
                try home.write("config.d/30-backup.json~", #"{"n":9}"#)
                try home.write("config.d/15-less.json", #"{"n":7,"m":7}"#)
                #expect(try client.event()["value"] == ["n": 2, "m": 7])
                unlink(home.directory + "/config.d/20-more.json")
                #expect(try client.event()["value"] == ["n": 7, "m": 7])
            }
        }

        @Test("a refresh returns the revision of a snapshot with the current content of the files")
        func refreshed() throws {
            try withFiles { home, _, client in
                for number in 1...5 {
                    try home.write("config.d/10-base.json", "{\"n\":\(number)}")
                    let answer = try client.call("config.refresh")
                    let current = try client.call("config.get")
                    #expect(current["value"] == ["n": .int(number)])
                    #expect(answer["revision"] == current["revision"])
                }
            }
        }

        @Test("if a file is truncated or a dangling link, the last good content stays, and the status names the file")
        func lastGoodStays() throws {
            try withFiles { home, agent, client in
                let more = home.directory + "/config.d/20-more.json"
                try #"{"n":"#.write(toFile: more, atomically: false, encoding: .utf8)
                try agent.waitForLog("20-more.json")
                #expect(try client.refusal("config.refresh").name == "rejected")
                #expect(try client.call("config.get")["value"] == ["n": 0, "m": 0])
                let status = try agent.status()
                #expect(status["state"] == "stale")
                #expect(status["layers"]?[1]?["problem"]?.string?.contains("20-more.json") == true, "\(status)")

                unlink(more)
                symlink("nowhere", more)
                #expect(try client.refusal("config.refresh").name == "rejected")
                #expect(try client.call("config.get")["value"] == ["n": 0, "m": 0])

                try home.write("config.d/20-more.json", #"{"n":3}"#)
                while try client.event()["value"] != ["n": 3, "m": 0] {}
                // The agent may have read the directory while the link was being replaced. In that case the status has
                // a problem. The refresh reads the directory again.
                try client.call("config.refresh")
                let repaired = try agent.status()
                #expect(repaired["state"] == "fresh")
                #expect(repaired["layers"]?[1]?["problem"]?.isNull == true)
            }
        }

        @Test("the replacement of the ..data link of a ConfigMap is published as one change")
        func configMap() throws {
            try AgentHome.with(settings: Self.settings) { home in
                let directory = home.directory + "/config.d"
                func replaceData(_ number: Int) throws {
                    try home.makeDirectory("config.d/..generation\(number)")
                    for name in ["a", "b"] {
                        try home.write("config.d/..generation\(number)/\(name).json", "{\"\(name)\":\(number)}")
                    }
                    symlink("..generation\(number)", directory + "/..data_tmp")
                    rename(directory + "/..data_tmp", directory + "/..data")
                }
                try home.makeDirectory("config.d")
                for name in ["a", "b"] { symlink("..data/\(name).json", directory + "/\(name).json") }
                try replaceData(1)
                let client = try home.start().connect()
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["a": 1, "b": 1])
                for number in 2...10 {
                    try replaceData(number)
                    #expect(try client.event()["value"] == ["a": .int(number), "b": .int(number)])
                }
            }
        }

        @Test("a directory that is created after the agent has started is read, and overrides take precedence over it")
        func laterDirectory() throws {
            try AgentHome.with(settings: Self.settings) { home in
                let client = try home.start().connect()
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == [:])
                try client.call("config.set", ["path": "n", "value": "mine"])
                #expect(try client.event()["value"] == ["n": "mine"])
                try home.makeDirectory("config.d")
                try home.write("config.d/a.json", #"{"n":"theirs","m":1}"#)
                #expect(try client.event()["value"] == ["n": "mine", "m": 1])
                try client.call("config.unset", ["path": "n"])
                #expect(try client.event()["value"] == ["n": "theirs", "m": 1])
            }
        }

        @Test("if the directory is missing or contains a FIFO, the last content stays, and the status has the problem")
        func directoryVanishes() throws {
            try withFiles { home, agent, client in
                let directory = home.directory + "/config.d"
                func expectProblem(_ agent: AgentProcess, _ text: String) throws {
                    #expect(try agent.call("config.get")["value"] == ["n": 0, "m": 0])
                    let status = try agent.status()
                    #expect(status["state"] == "stale")
                    #expect(status["layers"]?[1]?["problem"]?.string?.contains(text) == true, "\(status)")
                }
                rename(directory, directory + ".aside")
                #expect(try client.refusal("config.refresh").name == "rejected")
                try expectProblem(agent, "config.d: the directory existed before and is missing")
                client.close()
                #expect(try agent.stop() == .exit(0))
                let next = try home.start()
                try expectProblem(next, "config.d: the directory existed before and is missing")
                rename(directory + ".aside", directory)
                #expect(try next.call("config.refresh")["state"] == "fresh")
                mkfifo(directory + "/20.json", 0o600)
                #expect(try next.connect().refusal("config.refresh").name == "rejected")
                try expectProblem(next, "20.json: it is not a regular file")
                unlink(directory + "/20.json")
                #expect(try next.call("config.refresh")["state"] == "fresh")
            }
        }

        @Test("files that changed while the agent was down are in its first snapshot")
        func changedWhileDown() throws {
            try withFiles { home, agent, client in
                client.close()
                #expect(try agent.stop() == .exit(0))
                try home.write("config.d/10-base.json", #"{"n":5}"#)
                let next = try home.start()
                #expect(try next.call("config.get")["value"] == ["n": 5])
            }
        }
    }
}
