import TestSupport
import Testing

extension Integration {
    @Suite("Resumed subscriptions in patch mode")
    struct PatchResumeTests {
        @Test("patches reproduce the agent's snapshot at every event, across 5,000 changes, reconnects and restarts")
        func resume() throws {
            var generator = SeededGenerator()
            do {
                // Random documents sometimes remove almost all members. By default, the agent would reject them as a
                // mass deletion.
                try AgentHome.with(settings: "{ namespaces: { default: { maximumDeletionPercent: null } } }") {
                    try run(in: $0, &generator)
                }
            } catch {
                throw HarnessError("LARDER_TEST_SEED=\(generator.seed): \(error)")
            }
        }

        private func run(in home: AgentHome, _ generator: inout SeededGenerator) throws {
            let readers = [nil, nil, nil, "a", "größe", "f.g"].enumerated().map { number, group in
                PatchReader(group: group, isRecorded: number % 5 == 0)
            }
            let writer = ResumingWriter(watching: [nil, "a", "größe", "f.g"])
            var agent = try home.start()
            try writer.connect(to: agent)
            while writer.changes < 5_000 {
                for reader in readers {
                    if !reader.isConnected {
                        if Int.random(in: 0..<3, using: &generator) == 0 { try reader.connect(to: agent) }
                    } else if Int.random(in: 0..<4, using: &generator) == 0 {
                        try reader.interrupt(&generator)
                    } else if Int.random(in: 0..<2, using: &generator) == 0 {
                        try reader.readAvailable()
                    }
                }
                try writer.change(&generator)
                for reader in readers { try writer.check(reader) }
                guard Int.random(in: 0..<60, using: &generator) == 0 else { continue }
                writer.disconnect()
                if Int.random(in: 0..<2, using: &generator) == 0 { agent.kill() } else { _ = try agent.stop() }
                for reader in readers { try reader.readAvailable() }
                agent = try home.start()
                for reader in readers { reader.disconnect() }
                try writer.connect(to: agent)
            }
            for reader in readers where !reader.isConnected { try reader.connect(to: agent) }
            let last = try writer.changeEverything()
            for reader in readers {
                try reader.read(upTo: last[reader.group] ?? 0)
                try writer.check(reader)
            }
            let counts = readers.map(\.counts).reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
            for kind in ["patch", "first patch", "first snapshot, gap", "first snapshot, initial"] {
                #expect(counts[kind, default: 0] > 0, "\(counts); LARDER_TEST_SEED=\(generator.seed)")
            }
        }
    }
}
