import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Disk space of the image cache")
    struct ImageSpaceTests {
        private static let limit = 2_000_000

        /// The sizes in bytes of the images in the index, by digest.
        private func indexed(_ client: LineClient) throws -> [String: Int] {
            var bytes: [String: Int] = [:]
            for row in try client.images() {
                bytes[try ServedImage.digest(row)] = try require(row["bytes"]?.int, "bytes")
            }
            return bytes
        }

        @Test(
            "a leased image stays readable while the agent downloads images with three times the size of the cache limit"
        )
        func lease() throws {
            try AgentHome.withImages("maximumBytes: \(Self.limit), maximumImageBytes: 1000000") { home, origin in
                let leased = TestImage(.jpeg, seed: 0, size: 300_000)
                try origin.put(leased, "leased.jpeg")
                // All sizes differ, and none is a multiple of the block size.
                let others = (1...60).map { TestImage(.png, seed: $0, size: 90_001 + 397 * $0) }
                for (number, image) in others.enumerated() { try origin.put(image, "\(number).png") }
                #expect(others.reduce(0) { $0 + $1.bytes.count } > 3 * Self.limit)

                let agent = try home.start()
                let directory = CacheDirectory(of: home)
                let reader = try agent.connect()
                let served = try ServedImage(try reader.image(origin.url("fresh", "leased.jpeg")))
                // Opens the file by name for each piece, because the lease must keep the name, not only the content.
                var read: [UInt8] = []
                func readNextPiece() throws {
                    let file = try FileHandle(forReadingFrom: URL(filePath: served.path))
                    defer { try? file.close() }
                    try file.seek(toOffset: UInt64(read.count))
                    read += try file.read(upToCount: 1_000) ?? Data()
                }

                let writer = try agent.connect()
                let urls = others.indices.map { JSONValue.string(origin.url("fresh", "\($0).png")) }
                try writer.send(LineClient.text(id: 1, "image.prefetch", ["urls": .array(urls)]))
                var summary: JSONValue?
                var samples: [Int] = []
                while summary == nil {
                    samples.append(try agent.whileStopped { directory.bytes })
                    // Gives the agent time to make progress between samples.
                    _ = poll(nil, 0, 5)
                    try readNextPiece()
                    for line in writer.availableLines() {
                        let message = try JSONValue(parsing: line)
                        if message["id"] != nil { summary = try LineClient.result(of: message) }
                    }
                    if writer.isAtEnd { throw HarnessError("the agent closed the connection") }
                }
                let maxBytes = try require(samples.max(), "sample")
                print("\(samples.count) samples of the bytes on disk, at most \(maxBytes) of \(Self.limit)")
                #expect(maxBytes <= Self.limit)
                #expect(summary?["fetched"] == 60, "\(summary as Any)")
                writer.close()
                while read.count < leased.bytes.count { try readNextPiece() }
                #expect(read == leased.bytes)

                let observer = try agent.connect()
                try directory.wait("files that match the index and the lease") {
                    var expected = try indexed(observer)
                    expected[served.digest] = leased.bytes.count
                    return directory.blobs.reduce(into: [:]) { $0[$1.name] = $1.bytes } == expected
                        && directory.temporary.isEmpty
                }
                try directory.waitUntilCounted(by: observer)
                #expect(try observer.imageStatistics()["evictions"]?.int ?? 0 > 30)
                // The lease has ended, so the leased file stays only if its image is still in the index.
                reader.close()
                try directory.wait("files that match the index") {
                    try Set(directory.blobs.map(\.name)) == Set(indexed(observer).keys)
                }
            }
        }

        @Test("equal images at several URLs share one file, which is deleted with the last reference")
        func equalBytes() throws {
            try AgentHome.withImages { home, origin in
                let image = TestImage(.gif, seed: 5, size: 5_000)
                for name in ["a.gif", "b.gif", "c.gif"] { try origin.put(image, name) }
                let agent = try home.start()
                let client = try agent.connect()
                for name in ["a.gif", "b.gif", "c.gif"] {
                    let served = try ServedImage(try client.image(origin.url("fresh", name)))
                    #expect(served.source == "miss")
                    try client.call("image.release", ["lease": require(served.reply["lease"], "lease")])
                }
                let directory = CacheDirectory(of: home)
                #expect(directory.blobs == [.init(name: image.digest, bytes: 5_000)])
                #expect(try client.imageStatistics()["bytes"]?.int == directory.diskBytes)
                func remove(_ name: String) throws -> JSONValue? {
                    try client.call("image.remove", ["url": .string(origin.url("fresh", name))])["removed"]
                }
                for name in ["a.gif", "b.gif"] { #expect(try remove(name) == true) }
                #expect(try ServedImage(try client.image(origin.url("fresh", "c.gif"))).isWhole(image))
                #expect(try remove("c.gif") == true)
                // The lease of this client is the last reference to the file.
                #expect(directory.blobs.count == 1)
                client.close()
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }

        @Test("an agent that starts with a lowered limit serves requests before it has evicted images")
        func loweredLimit() throws {
            try AgentHome.withImages { home, origin in
                for number in 0..<100 {
                    try origin.put(TestImage(.png, seed: number, size: 20_000), "\(number).png")
                }
                let urls = (0..<100).map { JSONValue.string(origin.url("fresh", "\($0).png")) }
                let first = try home.start()
                #expect(try first.call("image.prefetch", ["urls": .array(urls)])["fetched"] == 100)
                let directory = CacheDirectory(of: home)
                #expect(directory.bytes == 2_000_000)
                #expect(try first.stop() == .exit(0))

                try home.write(settings: AgentHome.imageSettings("maximumBytes: 100000, maximumImageBytes: 50000"))
                let second = try home.start()
                let client = try second.connect()
                #expect(try client.call("config.get")["value"] == [:])
                // The agent serves requests while it evicts images in the background.
                let served = try ServedImage(try client.image(origin.url("fresh", "99.png")))
                #expect(try served.verifiedBytes().count == 20_000)
                try directory.wait("a cache within its limit") { directory.diskBytes <= 100_000 }
                #expect(try served.verifiedBytes().count == 20_000)
            }
        }

        @Test(
            "on a full disk, cached images are served and stay intact, and requests for other images fail with a reason",
            .needsMount)
        func fullDisk() throws {
            try AgentHome.withImages { home, origin in
                let disk = try SmallDisk(at: home.directory + "/cache", bytes: 4 << 20)
                defer { disk.remove() }
                let images = (0..<40).map { TestImage(.webp, seed: $0, size: 200_000) }
                for (number, image) in images.enumerated() { try origin.put(image, "\(number).webp") }
                let agent = try home.start()
                let client = try agent.connect()
                // All images are pinned, so that none of them can be evicted to make space for the next image.
                var pinned: [Int] = []
                var refusal: LineClient.Refusal?
                for number in images.indices where refusal == nil {
                    do {
                        try client.call("image.pin", ["url": .string(origin.url("fresh", "\(number).webp"))])
                        pinned.append(number)
                    } catch let error as LineClient.Refusal {
                        refusal = error
                    }
                }
                #expect(pinned.count > 5)
                #expect(refusal.map { ["cacheFull", "storageFailed"].contains($0.name) } == true, "\(refusal as Any)")
                for number in pinned {
                    let served = try ServedImage(try client.image(origin.url("fresh", "\(number).webp")))
                    #expect(served.source == "hit")
                    #expect(try served.isWhole(images[number]))
                }
                // The last image that the agent downloaded could not be pinned. The next request succeeds only if that
                // image is cached, because it can then be evicted to make space.
                do {
                    let more = try ServedImage(try client.image(origin.url("fresh", "39.webp")))
                    #expect(try more.isWhole(images[39]))
                } catch let error as LineClient.Refusal {
                    #expect(["cacheFull", "storageFailed"].contains(error.name), "\(error)")
                }
                // Images can be unpinned and removed even if not a single block is free.
                let filler = try disk.fill()
                try client.call("image.unpin", ["url": .string(origin.url("fresh", "\(pinned[0]).webp"))])
                client.close()
                let next = try agent.connect()
                try next.call("image.remove", ["url": .string(origin.url("fresh", "\(pinned[0]).webp"))])
                try FileManager.default.removeItem(atPath: filler)
                // Downloads resume when there is space again.
                let last = try retrying { try ServedImage(try next.image(origin.url("fresh", "39.webp"))) }
                #expect(try last.isWhole(images[39]))
                next.close()
                #expect(try agent.stop() == .exit(0))
                // After a restart, all pinned images are still there.
                let again = try home.start()
                let reader = try again.connect()
                for number in pinned.dropFirst() {
                    let served = try ServedImage(
                        try reader.image(origin.url("fresh", "\(number).webp"), ["policy": "cacheOnly"]))
                    #expect(try served.isWhole(images[number]))
                }
                reader.close()
                #expect(try again.stop() == .exit(0))
            }
        }
    }
}

/// A small file system in memory (tmpfs).
struct SmallDisk {
    private let path: String

    init(at path: String, bytes: Int) throws {
        self.path = path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let command = try Command.run("mount", ["-t", "tmpfs", "-o", "size=\(bytes),mode=0755", "larder-test", path])
        guard command.end == .exit(0) else { throw HarnessError("mount: \(command.log)") }
    }

    /// Writes a file until no space is left, and returns its path.
    func fill() throws -> String {
        let file = path + "/filler"
        let command = try Command.run("dd", ["if=/dev/zero", "of=\(file)", "bs=4096"])
        guard command.log.contains("No space left") else { throw HarnessError("dd: \(command.log)") }
        return file
    }

    /// Unmounts the file system, even if a process has a file on it open.
    func remove() { _ = try? Command.run("umount", ["-l", path]) }
}
