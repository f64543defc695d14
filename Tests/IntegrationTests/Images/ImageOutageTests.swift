import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Images during outages and across restarts")
    struct ImageOutageTests {
        private static let fresh = TestImage(.png, seed: 1, size: 3_000)
        private static let brief = TestImage(.jpeg, seed: 2, size: 4_000)
        private static let missing = TestImage(.gif, seed: 3, size: 5_000)

        private func withOrigin(_ body: (AgentHome, ImageOrigin) throws -> Void) throws {
            try AgentHome.withImages { home, origin in
                try origin.put(Self.fresh, "fresh.png")
                try origin.put(Self.brief, "brief.jpeg")
                try origin.put(Self.missing, "missing.gif")
                try body(home, origin)
            }
        }

        @Test(
            "while the origin is down, cached images are served as the request's policy permits; later, downloads work"
        )
        func outage() throws {
            try withOrigin { home, origin in
                let agent = try home.start()
                let client = try agent.connect()
                let fresh = origin.url("fresh", "fresh.png")
                let brief = origin.url("brief", "brief.jpeg")
                let missing = origin.url("fresh", "missing.gif")
                #expect(try ServedImage(try client.image(fresh)).source == "miss")
                #expect(try ServedImage(try client.image(brief)).source == "miss")
                origin.stop()

                for policy in ["cacheFirst", "default", "networkFirst", "cacheOnly", "staleWhileRevalidate"] {
                    let served = try ServedImage(try client.image(fresh, ["policy": .string(policy)]))
                    #expect(try served.isWhole(Self.fresh), "\(policy)")
                }
                let first = try ServedImage(try client.image(brief, ["policy": "cacheFirst"]))
                #expect(try first.isWhole(Self.brief))
                // Revalidation fails, and stale-if-error permits the stale image.
                let stale = try ServedImage(try client.image(brief))
                #expect(stale.freshness == "stale")
                #expect(try stale.isWhole(Self.brief))
                for policy in ["default", "cacheFirst", "networkFirst", "networkOnly"] {
                    let refusal = try client.imageRefusal(missing, ["policy": .string(policy)])
                    #expect(refusal.name == "offline", "\(policy): \(refusal)")
                }
                #expect(try client.imageRefusal(missing, ["policy": "cacheOnly"]).name == "notFound")
                #expect(try client.imageRefusal(fresh, ["policy": "networkOnly"]).name == "offline")
                // After a restart of the agent, the same images are served.
                client.close()
                #expect(try agent.stop() == .exit(0))
                let again = try home.start()
                let reader = try again.connect()
                #expect(try ServedImage(try reader.image(fresh)).isWhole(Self.fresh))
                #expect(try ServedImage(try reader.image(brief)).isWhole(Self.brief))
                #expect(try reader.imageRefusal(missing).name == "offline")

                try origin.start()
                let recovered = try retrying { try ServedImage(try reader.image(missing)) }
                #expect(try recovered.isWhole(Self.missing))
                // The stale image is revalidated.
                let revalidated = try retrying {
                    let served = try ServedImage(try reader.image(brief))
                    guard served.freshness == "revalidated" else { throw HarnessError("\(served.reply)") }
                    return served
                }
                #expect(try revalidated.isWhole(Self.brief))
                #expect(try origin.requests().contains { $0.path == "/brief/brief.jpeg" && $0.status == 304 })
            }
        }

        @Test("while the origin is down, image get names the policy that uses the cached copy")
        func adviceOnCopy() throws {
            try withOrigin { home, origin in
                _ = try home.start()
                let (fresh, missing) = (origin.url("fresh", "fresh.png"), origin.url("fresh", "missing.gif"))
                #expect(try home.larder("image", "get", fresh).end == .exit(0))
                origin.stop()
                let refused = try home.larder("image", "get", fresh, "--policy", "networkOnly")
                #expect(refused.status == 9)
                #expect(
                    refused.log.contains(#/; to use the cached copy, which is \d+ s old, add --policy cacheFirst$/#),
                    "\(refused.log)")
                let old = try home.larder("image", "get", fresh, "--policy", "networkOnly", "--max-age", "1s")
                #expect(old.log.hasSuffix(" add --policy cacheFirst and omit --max-age"), "\(old.log)")
                #expect(try home.larder("image", "get", fresh, "--policy", "cacheFirst").end == .exit(0))
                let uncached = try home.larder("image", "get", missing)
                #expect(uncached.status == 9 && !uncached.log.contains("--policy"), "\(uncached.log)")
            }
        }

        @Test("a restart keeps every image and sends no request to the origin")
        func restart() throws {
            try AgentHome.withImages { home, origin in
                let images = (0..<40).map { TestImage(.allCases[$0 % 4], seed: $0, size: 1_000 + 2 * $0) }
                for (number, image) in images.enumerated() { try origin.put(image, "\(number)") }
                let urls = images.indices.map { origin.url("fresh", "\($0)") }
                let first = try home.start()
                let summary = try first.call("image.prefetch", ["urls": .array(urls.map { .string($0) })])
                #expect(summary["fetched"] == 40)
                #expect(summary["failed"] == 0)
                try first.call("image.pin", ["url": .string(urls[7])])
                #expect(try first.stop() == .exit(0))
                let before = try origin.counts()
                #expect(before.count == 40)

                let second = try home.start()
                let client = try second.connect()
                let rows = try client.images(pageSize: 7)
                #expect(Set(rows.compactMap { $0["url"]?.string }) == Set(urls))
                #expect(rows.filter { $0["pinned"] == true }.compactMap { $0["url"]?.string } == [urls[7]])
                for (url, image) in zip(urls, images) {
                    let served = try ServedImage(try client.image(url))
                    #expect(served.source == "hit")
                    #expect(served.freshness == "fresh")
                    #expect(served.reply["mediaType"]?.string == image.mediaType)
                    #expect(try served.isWhole(image))
                }
                let again = try client.call("image.prefetch", ["urls": .array(urls.map { .string($0) })])
                #expect(again["cached"] == 40)
                #expect(try origin.counts() == before)
            }
        }

        @Test("a damaged index is restored with its pins, and its images are stale until they are revalidated")
        func damagedIndex() throws {
            try withOrigin { home, origin in
                let urls = [origin.url("fresh", "fresh.png"), origin.url("fresh", "missing.gif")]
                let first = try home.start()
                try first.call("image.prefetch", ["urls": .array(urls.map { .string($0) })])
                try first.call("image.pin", ["url": .string(urls[0])])
                #expect(try first.stop() == .exit(0))
                let directory = home.directory + "/cache/images"
                // Deletes the write-ahead log. It can contain every page of the index, and SQLite would then not read
                // the damaged pages of the file.
                try? FileManager.default.removeItem(atPath: directory + "/index.sqlite-wal")
                try Data((0..<8_192).map { UInt8(truncatingIfNeeded: $0 * 31) })
                    .write(to: URL(filePath: directory + "/index.sqlite"))
                let before = try origin.counts()

                let second = try home.start()
                let client = try second.connect()
                let pinned = try client.images().filter { $0["pinned"] == true }.map { $0["url"]?.string }
                #expect(pinned == [urls[0]])
                for (url, image) in zip(urls, [Self.fresh, Self.missing]) {
                    let served = try ServedImage(try client.image(url, ["policy": "cacheOnly"]))
                    #expect(served.freshness == "stale")
                    #expect(try served.isWhole(image))
                }
                #expect(try origin.counts() == before)
                for (url, image) in zip(urls, [Self.fresh, Self.missing]) {
                    #expect(try ServedImage(try client.image(url)).isWhole(image))
                }
                #expect(try origin.counts() != before)
                #expect(home.exists(directory + "/index.sqlite.damaged"))
                #expect(second.log.contains("restored from its copy"))
            }
        }

        @Test("an image whose file is damaged after kill -9 is fetched again before it is served")
        func damagedBlob() throws {
            try withOrigin { home, origin in
                let url = origin.url("fresh", "fresh.png")
                let first = try home.start()
                let served = try ServedImage(try first.call("image.get", ["url": .string(url)]))
                first.kill()
                chmod(served.path, 0o640)
                var bytes = Self.fresh.bytes
                bytes[1_000] ^= 1
                try Data(bytes).write(to: URL(filePath: served.path))

                let second = try home.start()
                let again = try ServedImage(try second.call("image.get", ["url": .string(url)]))
                #expect(try again.isWhole(Self.fresh))
                #expect(try origin.counts() == ["/fresh/fresh.png": 2])
            }
        }

        @Test("a second agent with the same cache directory has no images and names the pid of the first")
        func twoAgents() throws {
            try withOrigin { home, origin in
                let first = try home.start()
                let url = origin.url("fresh", "fresh.png")
                let second = try home.start(
                    socket: home.directory + "/other", state: home.directory + "/other-state",
                    cache: home.directory + "/cache")
                let refusal = try second.connect().imageRefusal(url)
                #expect(refusal.name == "unavailable")
                #expect(refusal.detail.contains("\(first.pid)"), "\(refusal.detail)")
                #expect(refusal.detail.contains(home.directory + "/cache"), "\(refusal.detail)")
                #expect(try second.stop() == .exit(0))
                #expect(try ServedImage(try first.call("image.get", ["url": .string(url)])).isWhole(Self.fresh))
                first.kill()
                // The lock of a killed agent does not prevent the next agent from starting.
                let third = try home.start()
                #expect(try ServedImage(try third.call("image.get", ["url": .string(url)])).isWhole(Self.fresh))
            }
        }
    }
}
