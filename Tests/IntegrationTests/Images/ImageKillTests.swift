import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Images after kill -9")
    struct ImageKillTests {
        private static let kills = 75
        private static let images = (0..<24).map { TestImage(.allCases[$0 % 4], seed: $0, size: 2_000 + 1_602 * $0) }
        /// Limits the cache to a third of the images, so that evictions are frequent.
        private static let settings = "maximumBytes: 160000, maximumImageBytes: 60000"

        @Test(
            "after kill -9 at 75 random moments, every indexed image is served intact, and unindexed files are deleted",
            arguments: 1...4)
        func kills(number: Int) throws {
            var generator = SeededGenerator()
            print("seed of the kills in home \(number): \(generator.seed)")
            var (served, maxLifetime) = (0, 80_000)
            try AgentHome.withImages(Self.settings) { home, origin in
                for (number, image) in Self.images.enumerated() { try origin.put(image, "\(number)") }
                let urls = Self.images.indices.map { origin.url("fresh", "\($0)") }
                for round in 0..<Self.kills {
                    // Every eighth kill hits an agent that is starting.
                    if round % 8 == 7 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<60_000, using: &generator)))
                        continue
                    }
                    let agent = try home.start()
                    served += try Self.check(agent, urls)
                    let time = Duration.microseconds(Int.random(in: 0..<maxLifetime, using: &generator))
                    served += try Self.loadUntilKilled(agent, urls, after: time, &generator)
                    // If no image has been served yet, the agents are too slow, and the next ones may run longer before
                    // they are killed.
                    if served == 0 { maxLifetime = min(maxLifetime * 2, 10_000_000) }
                    #expect(!agent.log.contains("damaged"), "\(agent.log)")
                }
                let last = try home.start()
                served += try Self.check(last, urls)
                try Self.checkOrphans(home, last)
            }
            print("\(served) images were served and read")
            #expect(served > 0)
        }

        @Test("40 kills of the agent while it restores a damaged index lose no image and no pin")
        func killsWhileRestoring() throws {
            var generator = SeededGenerator()
            print("seed of the kills: \(generator.seed)")
            try AgentHome.withImages { home, origin in
                for (number, image) in Self.images.enumerated() { try origin.put(image, "\(number)") }
                let urls = Self.images.indices.map { origin.url("fresh", "\($0)") }
                let first = try home.start()
                try first.call("image.prefetch", ["urls": .array(urls.map { .string($0) })])
                for url in urls.prefix(5) { try first.call("image.pin", ["url": .string(url)]) }
                #expect(try first.stop() == .exit(0))
                let index = URL(filePath: home.directory + "/cache/images/index.sqlite")
                for _ in 0..<8 {
                    // Deletes the write-ahead log. It can contain every page of the index, and SQLite would then not
                    // read the damaged pages of the file.
                    try? FileManager.default.removeItem(atPath: index.path + "-wal")
                    try Data(repeating: 0x41, count: 8_192).write(to: index)
                    for _ in 0..<5 {
                        try home.startAndKill(after: .microseconds(.random(in: 0..<90_000, using: &generator)))
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

        /// Checks that an agent serves every image of its index with the right bytes. Returns the number of images.
        private static func check(_ agent: AgentProcess, _ urls: [String]) throws -> Int {
            let client = try agent.connect()
            defer { client.close() }
            let rows = try client.images()
            for row in rows {
                let url = try require(row["url"]?.string, "url")
                let number = try require(urls.firstIndex(of: url), "\(url) among the URLs")
                let image = images[number]
                guard try ServedImage.digest(row) == image.digest else {
                    throw HarnessError("a row has the wrong digest: \(row)")
                }
                let served = try ServedImage(try client.image(url, ["policy": "cacheOnly"]))
                guard try served.isWhole(image) else { throw HarnessError("wrong bytes for \(url)") }
            }
            return rows.count
        }

        /// Waits until the image files on disk are exactly the files in the index.
        private static func checkOrphans(_ home: AgentHome, _ agent: AgentProcess) throws {
            let client = try agent.connect()
            defer { client.close() }
            let directory = CacheDirectory(of: home)
            try directory.wait("the deletion of orphans") {
                let rows = try Set(client.images().map { try ServedImage.digest($0) })
                return directory.temporary.isEmpty && Set(directory.blobs.map(\.name)) == rows
            }
            try directory.waitUntilCounted(by: client)
        }

        /// Sends random requests from three clients, kills the agent after `time`, and returns the number of images
        /// that were served.
        private static func loadUntilKilled(
            _ agent: AgentProcess, _ urls: [String], after time: Duration, _ generator: inout SeededGenerator
        ) throws -> Int {
            let clients = try (0..<3).map { _ in try agent.connect() }
            for client in clients {
                for _ in 0..<4 { try sendRandomRequest(client, urls, &generator) }
            }
            var served = 0
            let end = Deadline.after(time)
            while !end.hasPassed {
                var polled = clients.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
                poll(&polled, nfds_t(polled.count), end.milliseconds)
                for client in clients {
                    for line in client.availableLines() {
                        let message = try JSONValue(parsing: line)
                        if message["method"] != nil { continue }
                        if try isServedWhole(message) { served += 1 }
                        try sendRandomRequest(client, urls, &generator)
                    }
                }
            }
            agent.kill()
            for client in clients { client.close() }
            return served
        }

        /// Whether a reply serves an image. Throws if the file of the image is missing or has wrong bytes. An eviction
        /// is no excuse, because the lease of the client keeps the file in place.
        private static func isServedWhole(_ message: JSONValue) throws -> Bool {
            guard let result = message["result"], result["path"] != nil else {
                let name = message["error"]?["data"]?["name"]?.string
                guard name == nil || name == "cacheFull" || name == "notFound" || name == "offline" else {
                    throw HarnessError("unexpected error: \(message)")
                }
                return false
            }
            let served = try ServedImage(result)
            guard images.contains(where: { $0.digest == served.digest }) else {
                throw HarnessError("an image that the origin does not have: \(message)")
            }
            _ = try served.verifiedBytes()
            return true
        }

        private static func sendRandomRequest(
            _ client: LineClient, _ urls: [String], _ generator: inout SeededGenerator
        ) throws {
            let url = JSONValue.string(urls[Int.random(in: urls.indices, using: &generator)])
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<5: _ = try client.request("image.get", ["url": url])
            case 5: _ = try client.request("image.get", ["url": url, "policy": "networkOnly"])
            case 6..<8:
                let some = urls.shuffled(using: &generator).prefix(6).map { JSONValue.string($0) }
                _ = try client.request("image.prefetch", ["urls": .array(some)])
            default: _ = try client.request("image.remove", ["url": url])
            }
        }
    }
}
