import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Subscribers in patch mode that come and go")
    struct PatchResumeTests {
        @Test("over 5,000 changes and many starts, what they put together is the agent's snapshot at every event")
        func resume() throws {
            var chance = SeededGenerator()
            do {
                // Documents by chance remove almost everything at times.
                try AgentHome.with(settings: "{ namespaces: { default: { maximumDeletionPercent: null } } }") {
                    try live(in: $0, &chance)
                }
            } catch {
                throw HarnessError("LARDER_TEST_SEED=\(chance.seed): \(error)")
            }
        }

        private func live(in home: AgentHome, _ chance: inout SeededGenerator) throws {
            let readers = [nil, nil, nil, "a", "größe", "f.g"].enumerated().map { number, group in
                PatchReader(group: group, isRecorded: number % 5 == 0)
            }
            let writer = ResumingWriter(watching: [nil, "a", "größe", "f.g"])
            var agent = try home.start()
            try writer.connect(to: agent)
            while writer.changes < 5_000 {
                for reader in readers {
                    if !reader.isConnected {
                        if Int.random(in: 0..<3, using: &chance) == 0 { try reader.connect(to: agent) }
                    } else if Int.random(in: 0..<4, using: &chance) == 0 {
                        try reader.leave(&chance)
                    } else if Int.random(in: 0..<2, using: &chance) == 0 {
                        try reader.take()
                    }
                }
                try writer.change(&chance)
                for reader in readers { try writer.check(reader) }
                guard Int.random(in: 0..<60, using: &chance) == 0 else { continue }
                writer.disconnect()
                if Int.random(in: 0..<2, using: &chance) == 0 { agent.kill() } else { _ = try agent.stop() }
                for reader in readers { try reader.take() }
                agent = try home.start()
                for reader in readers { reader.drop() }
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
                #expect(counts[kind, default: 0] > 0, "\(counts); LARDER_TEST_SEED=\(chance.seed)")
            }
        }
    }
}
