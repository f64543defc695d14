import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Crashes")
    struct CrashTests {
        private static let settings = "{ namespaces: { default: {}, loose: { durability: 'relaxed' } } }"

        /// Writes from several clients without pause, and kills the agent after `time`.
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
            // Reads the replies and events that the agent sent before the kill.
            for index in writers.indices { _ = try takeReplies(index, writers[index], &ledger) }
            for watcher in watchers { try takeEvents(watcher, &ledger) }
            for client in writers + watchers { client.close() }
        }

        private func sendNext(_ index: Int, _ client: LineClient, _ ledger: inout Ledger) throws {
            ledger.writers[index].sent += 1
            try client.send(ledger.writers[index].request(ledger.writers[index].sent))
        }

        private func takeReplies(_ index: Int, _ client: LineClient, _ ledger: inout Ledger) throws -> Int {
            let lines = client.availableLines()
            for line in lines {
                let reply = try JSONValue(parsing: line)
                try ledger.recordReply(reply, to: require(reply["id"]?.int, "id"), of: index)
            }
            return lines.count
        }

        private func takeEvents(_ client: LineClient, _ ledger: inout Ledger) throws {
            for line in client.availableLines() {
                let message = try JSONValue(parsing: line)
                guard let event = message["params"], let revision = event["revision"]?.int else { continue }
                try ledger.record(
                    revision, of: require(event["namespace"]?.string, "namespace"),
                    epoch: require(event["epoch"]?.string, "epoch"), content: event["value"])
            }
        }

        /// Checks that all generations on disk are complete and named by their revision, and that there are not too
        /// many files.
        private func checkArchive(_ home: AgentHome) throws {
            for namespace in ["default", "loose"] {
                let directory = home.state + "/config/\(namespace)/generations"
                let names = try FileManager.default.contentsOfDirectory(atPath: directory)
                // 16 generations are kept. The agent may be writing a further one, and may be about to delete one. It
                // can also write all 16 pending generations while the directory is being listed.
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
            "50 kills of the agent at random moments lose no acknowledged change, and no revision is used twice",
            arguments: 1...4)
        func kills(number: Int) throws {
            let rounds = 50
            var generator = SeededGenerator()
            print("seed of the kills in home \(number): \(generator.seed)")
            try AgentHome.with(settings: Self.settings) { home in
                var ledger = Ledger(writers: [
                    .init(namespace: "default", path: "a", isPush: false, isDurable: true),
                    .init(namespace: "default", path: "b", isPush: false, isDurable: true),
                    .init(namespace: "default", path: "pushed", isPush: true, isDurable: true),
                    .init(namespace: "loose", path: "a", isPush: false, isDurable: false),
                    .init(namespace: "loose", path: "pushed", isPush: true, isDurable: false),
                ])
                for round in 0..<rounds {
                    // In every tenth round, another kill hits an agent that is starting.
                    if round % 10 == 9 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<60_000, using: &generator)))
                    }
                    let agent = try home.start()
                    try ledger.check(agent)
                    let time = Duration.microseconds(.random(in: 0..<40_000, using: &generator))
                    try writeUntilKilled(agent, after: time, &ledger)
                    // If the record that is being written spans two pages, the kill can truncate it. The log must not
                    // report the truncated record as damage, because its change was not acknowledged.
                    #expect(!agent.log.contains("is damaged"), "\(agent.log)")
                    if round % 20 == 0 { try checkArchive(home) }
                }
                let last = try home.start()
                try ledger.check(last)
                try checkArchive(home)
                #expect(!last.log.contains("damaged"), "\(last.log)")
                #expect(ledger.acknowledgements > 0)
                print("\(ledger.acknowledgements) changes were acknowledged")
            }
        }
    }
}
