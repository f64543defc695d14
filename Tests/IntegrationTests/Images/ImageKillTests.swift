import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Images after kill -9")
    struct ImageKillTests {
        /// Homes that live and die beside each other, and how often each of them dies.
        private static let (homes, kills) = (4, 75)
        private static let images = (0..<24).map { MadeImage(.allCases[$0 % 4], seed: $0, size: 2_000 + 1_602 * $0) }
        /// Room for a third of the images, so that there is always one to be evicted.
        private static let settings = "maximumBytes: 160000, imageBytes: 60000"

        @Test(
            "after kill -9 at 300 random moments of gets, prefetches, evictions and removals, what is served is what its name says, no row lacks its file, and orphans go"
        )
        func kills() async throws {
            let chance = SeededGenerator()
            print("seed of the kills: \(chance.seed)")
            var template = Array("/tmp/larder-origin-XXXXXX".utf8CString)
            let name = try #require(mkdtemp(&template).map { String(cString: $0) })
            defer { try? FileManager.default.removeItem(atPath: name) }
            let origin = try ImageOrigin(below: name)
            defer { origin.stop() }
            for (number, image) in Self.images.enumerated() { try origin.put(image, "\(number)") }
            let urls = Self.images.indices.map { origin.url("fresh", "\($0)") }
            // Each on a thread of its own, where it may wait.
            let served = try await withThrowingTaskGroup(of: Int.self) { group in
                for home in 0..<Self.homes {
                    let seed = chance.seed &+ UInt64(home)
                    group.addTask { try Self.live(urls, SeededGenerator(seed: seed)) }
                }
                return try await group.reduce(0, +)
            }
            print("\(served) images were served and read")
            #expect(served > 0)
        }

        @Test("killed 40 times while a damaged index is restored, the next start has every image and every pin")
        func killsWhileRestoring() throws {
            var chance = SeededGenerator()
            print("seed of the kills: \(chance.seed)")
            try AgentHome.withImages { home, origin in
                for (number, image) in Self.images.enumerated() { try origin.put(image, "\(number)") }
                let urls = Self.images.indices.map { origin.url("fresh", "\($0)") }
                let first = try home.start()
                try first.ask("image.prefetch", ["urls": .array(urls.map { .string($0) })])
                for url in urls.prefix(5) { try first.ask("image.pin", ["url": .string(url)]) }
                #expect(try first.stop() == .exit(0))
                let index = URL(filePath: home.directory + "/cache/images/index.sqlite")
                for _ in 0..<8 {
                    // With a log that has every page, SQLite would not notice the damage.
                    try? FileManager.default.removeItem(atPath: index.path + "-wal")
                    try Data(repeating: 0x41, count: 8_192).write(to: index)
                    for _ in 0..<5 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<90_000, using: &chance)))
                    }
                    let agent = try home.start()
                    let client = try agent.connect()
                    let rows = try client.images()
                    #expect(Set(rows.map { $0["url"]?.string }) == Set(urls))
                    let pinned = rows.filter { $0["pinned"] == true }.map { $0["url"]?.string }
                    #expect(Set(pinned) == Set(urls.prefix(5)))
                    for (url, image) in zip(urls, Self.images) {
                        let served = try ServedImage(try client.image(url, ["policy": "cacheOnly"]))
                        #expect(served.freshness == "stale")
                        #expect(try served.isWhole(image))
                    }
                    client.close()
                    agent.kill()
                }
            }
        }

        /// Starts agents in one home, one after the other, each of which is killed.
        /// - Returns: how many images were served, and found to be what they were served for
        private static func live(_ urls: [String], _ seeded: SeededGenerator) throws -> Int {
            var chance = seeded
            var (served, longest) = (0, 80_000)
            try AgentHome.with(settings: AgentHome.imageSettings(settings)) { home in
                for round in 0..<kills {
                    // Now and then it does not even get to its start's end.
                    if round % 8 == 7 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<60_000, using: &chance)))
                        continue
                    }
                    let agent = try home.start()
                    served += try check(agent, urls)
                    let time = Duration.microseconds(Int.random(in: 0..<longest, using: &chance))
                    served += try loadUntilKilled(agent, urls, after: time, &chance)
                    // An agent that is too slow to serve anything in that time lives longer.
                    if served == 0 { longest = min(longest * 2, 10_000_000) }
                    #expect(!agent.log.contains("damaged"), "\(agent.log)")
                }
                let last = try home.start()
                served += try check(last, urls)
                try checkOrphans(home, last)
            }
            return served
        }

        /// Holds what an agent serves after its start against the bytes on disk.
        private static func check(_ agent: AgentProcess, _ urls: [String]) throws -> Int {
            let client = try agent.connect()
            defer { client.close() }
            let rows = try client.images()
            for row in rows {
                let url = try require(row["url"]?.string, "url")
                let number = try require(urls.firstIndex(of: url), "\(url) among the URLs")
                let image = images[number]
                guard try ServedImage.digest(row) == image.digest else {
                    throw HarnessError("a row for other bytes: \(row)")
                }
                // No row without its file, and no file but a whole one.
                let served = try ServedImage(try client.image(url, ["policy": "cacheOnly"]))
                guard try served.isWhole(image) else { throw HarnessError("\(url) is served with other bytes") }
            }
            return rows.count
        }

        /// What is on disk when nothing happens any more: the files of rows, and no others.
        private static func checkOrphans(_ home: AgentHome, _ agent: AgentProcess) throws {
            let client = try agent.connect()
            defer { client.close() }
            let directory = CacheDirectory(of: home)
            try directory.wait("orphans to be gone") {
                let rows = try Set(client.images().map { try ServedImage.digest($0) })
                return directory.temporary.isEmpty && Set(directory.blobs.map(\.name)) == rows
            }
            #expect(try client.imageStatistics()["bytes"]?.int == directory.diskBytes)
        }

        /// Clients that do everything at once until the agent is killed.
        private static func loadUntilKilled(
            _ agent: AgentProcess, _ urls: [String], after time: Duration, _ chance: inout SeededGenerator
        ) throws -> Int {
            let clients = try (0..<3).map { _ in try agent.connect() }
            for client in clients {
                for _ in 0..<4 { try sendSomething(client, urls, &chance) }
            }
            var served = 0
            let end = Deadline.after(time)
            while !end.hasPassed {
                var polled = clients.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
                poll(&polled, nfds_t(polled.count), end.milliseconds)
                for client in clients {
                    for line in client.linesSoFar() {
                        let message = try JSONValue(parsing: line)
                        if message["method"] != nil { continue }
                        if try isServedWhole(message) { served += 1 }
                        try sendSomething(client, urls, &chance)
                    }
                }
            }
            agent.kill()
            for client in clients { client.close() }
            return served
        }

        /// Whether a reply serves an image; its bytes have to be right at that moment, since there is a lease on them.
        private static func isServedWhole(_ message: JSONValue) throws -> Bool {
            guard let result = message["result"], result["path"] != nil else {
                let name = message["error"]?["data"]?["name"]?.string
                guard name == nil || name == "noRoom" || name == "notFound" || name == "offline" else {
                    throw HarnessError("an error that nobody expects: \(message)")
                }
                return false
            }
            let served = try ServedImage(result)
            guard images.contains(where: { $0.digest == served.digest }) else {
                throw HarnessError("an image that the origin never had: \(message)")
            }
            _ = try served.verifiedBytes()
            return true
        }

        private static func sendSomething(
            _ client: LineClient, _ urls: [String], _ chance: inout SeededGenerator
        ) throws {
            let url = JSONValue.string(urls[Int.random(in: urls.indices, using: &chance)])
            switch Int.random(in: 0..<10, using: &chance) {
            case 0..<5: _ = try client.request("image.get", ["url": url])
            case 5: _ = try client.request("image.get", ["url": url, "policy": "networkOnly"])
            case 6..<8:
                let some = urls.shuffled(using: &chance).prefix(6).map { JSONValue.string($0) }
                _ = try client.request("image.prefetch", ["urls": .array(some)])
            default: _ = try client.request("image.remove", ["url": url])
            }
        }
    }
}
