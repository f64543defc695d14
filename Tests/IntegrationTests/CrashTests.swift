import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Ends without warning")
    struct CrashTests {
        private static let settings = "{ namespaces: { default: {}, loose: { durability: 'relaxed' } } }"

        /// Starts clients on an agent, has them write without pause, and kills the agent in the middle of it.
        private func writeUntilKilled(_ agent: AgentProcess, after time: Duration, _ ledger: inout Ledger) throws {
            let writers = try ledger.writers.map { _ in try agent.connect() }
            let watchers = try ["default", "loose"].map { namespace in
                let client = try agent.connect()
                try client.send(LineClient.text(id: 0, "config.subscribe", ["namespace": .string(namespace)]))
                return client
            }
            for index in writers.indices {
                for _ in 0..<2 { try sendNext(index, writers[index], &ledger) }
            }
            let end = Deadline.after(time)
            while !end.hasPassed {
                var polled = (writers + watchers).map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
                poll(&polled, nfds_t(polled.count), end.milliseconds)
                for index in writers.indices {
                    for _ in 0..<(try takeReplies(index, writers[index], &ledger)) {
                        try sendNext(index, writers[index], &ledger)
                    }
                }
                for watcher in watchers { try takeEvents(watcher, &ledger) }
            }
            agent.kill()
            // What the agent had said before it died was said.
            for index in writers.indices { _ = try takeReplies(index, writers[index], &ledger) }
            for watcher in watchers { try takeEvents(watcher, &ledger) }
            for client in writers + watchers { client.close() }
        }

        private func sendNext(_ index: Int, _ client: LineClient, _ ledger: inout Ledger) throws {
            ledger.writers[index].sent += 1
            try client.send(ledger.writers[index].request(ledger.writers[index].sent))
        }

        private func takeReplies(_ index: Int, _ client: LineClient, _ ledger: inout Ledger) throws -> Int {
            let lines = client.linesSoFar()
            for line in lines {
                let reply = try JSONValue(parsing: line)
                try ledger.recordReply(reply, to: require(reply["id"]?.int, "id"), of: index)
            }
            return lines.count
        }

        private func takeEvents(_ client: LineClient, _ ledger: inout Ledger) throws {
            for line in client.linesSoFar() {
                let message = try JSONValue(parsing: line)
                guard let event = message["params"], let revision = event["revision"]?.int else { continue }
                try ledger.record(
                    revision, of: require(event["namespace"]?.string, "namespace"),
                    epoch: require(event["epoch"]?.string, "epoch"), content: event["value"])
            }
        }

        /// What a running agent left on disk: generations that are whole, under their own numbers, and nothing else.
        private func checkArchive(_ home: AgentHome) throws {
            for namespace in ["default", "loose"] {
                let directory = home.state + "/config/\(namespace)/generations"
                let names = try FileManager.default.contentsOfDirectory(atPath: directory)
                // One may be on its way right now, and one on its way out; and a directory is not read in one moment: as
                // many as wait to be written may come and go meanwhile.
                #expect(names.count <= 16 + 2 + 16)
                for name in names where !name.hasSuffix(".json.tmp") {
                    guard let text = try? String(contentsOfFile: directory + "/" + name, encoding: .utf8) else {
                        continue
                    }
                    try #require(text.hasSuffix("}\n"), "\(name)")
                    let number = try require(Int(name.prefix { $0 != "." }), "number in \(name)")
                    #expect(text.contains("\"revision\":\(number)"), "\(name)")
                }
            }
        }

        @Test(
            "after kill -9 at 200 random moments, what was acknowledged is there, whole, and no revision is used twice")
        func kills() throws {
            let rounds = 200
            var chance = SeededGenerator()
            print("seed of the kills: \(chance.seed)")
            try AgentHome.with(settings: Self.settings) { home in
                var ledger = Ledger(writers: [
                    .init(namespace: "default", path: "a", isPush: false, isDurable: true),
                    .init(namespace: "default", path: "b", isPush: false, isDurable: true),
                    .init(namespace: "default", path: "pushed", isPush: true, isDurable: true),
                    .init(namespace: "loose", path: "a", isPush: false, isDurable: false),
                    .init(namespace: "loose", path: "pushed", isPush: true, isDurable: false),
                ])
                for round in 0..<rounds {
                    // Now and then it does not even get to its start's end.
                    if round % 10 == 9 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<60_000, using: &chance)))
                    }
                    let agent = try home.start()
                    try ledger.check(agent)
                    let time = Duration.microseconds(.random(in: 0..<40_000, using: &chance))
                    try writeUntilKilled(agent, after: time, &ledger)
                    // A record across two pages may be cut off by the signal; nobody was told of it.
                    #expect(!agent.log.contains("is damaged"), "\(agent.log)")
                    if round % 20 == 0 { try checkArchive(home) }
                }
                let last = try home.start()
                try ledger.check(last)
                try checkArchive(home)
                #expect(!last.log.contains("damaged"), "\(last.log)")
                #expect(ledger.acknowledgements > rounds)
                print("\(ledger.acknowledgements) changes were acknowledged")
            }
        }
    }
}
