import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Images and room on disk")
    struct ImageSpaceTests {
        private static let limit = 2_000_000

        /// What the index says: the bytes of its images, each once.
        private func indexed(_ client: LineClient) throws -> [String: Int] {
            var bytes: [String: Int] = [:]
            for row in try client.images() {
                bytes[try ServedImage.digest(row)] = try require(row["bytes"]?.int, "bytes")
            }
            return bytes
        }

        @Test(
            "a client reads what it has a lease on while the cache is filled three times over, within its limit at every moment"
        )
        func lease() throws {
            try AgentHome.withImages("maximumBytes: \(Self.limit), imageBytes: 1000000") { home, origin in
                let held = MadeImage(.jpeg, seed: 0, size: 300_000)
                try origin.put(held, "held.jpeg")
                // No two of a size, and of sizes that fill no block.
                let others = (1...60).map { MadeImage(.png, seed: $0, size: 90_001 + 397 * $0) }
                for (number, image) in others.enumerated() { try origin.put(image, "\(number).png") }
                #expect(others.reduce(0) { $0 + $1.bytes.count } > 3 * Self.limit)

                let agent = try home.start()
                let directory = CacheDirectory(of: home)
                let reader = try agent.connect()
                let served = try ServedImage(try reader.image(origin.url("fresh", "held.jpeg")))
                // By its name, again and again: a lease is on the name, not only on the bytes behind it.
                var read: [UInt8] = []
                func readOn() throws {
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
                    samples.append(try agent.whileHeld { directory.bytes })
                    // It has to get on, too.
                    _ = poll(nil, 0, 5)
                    try readOn()
                    for line in writer.linesSoFar() {
                        let message = try JSONValue(parsing: line)
                        if message["id"] != nil { summary = try LineClient.result(of: message) }
                    }
                    if writer.isAtEnd { throw HarnessError("the agent closed the connection") }
                }
                let most = try require(samples.max(), "sample")
                print("\(samples.count) samples of the bytes on disk, at most \(most) of \(Self.limit)")
                #expect(most <= Self.limit)
                #expect(summary?["fetched"] == 60, "\(summary as Any)")
                writer.close()
                while read.count < held.bytes.count { try readOn() }
                #expect(read == held.bytes)

                let observer = try agent.connect()
                try directory.wait("bytes on disk that are those of the index and of what is on lease") {
                    var expected = try indexed(observer)
                    expected[served.digest] = held.bytes.count
                    return directory.blobs.reduce(into: [:]) { $0[$1.name] = $1.bytes } == expected
                        && directory.temporary.isEmpty
                }
                #expect(try observer.imageStatistics()["bytes"]?.int == directory.diskBytes)
                #expect(try observer.imageStatistics()["evictions"]?.int ?? 0 > 30)
                // When nobody reads it any more, it goes with its row, or stays with it.
                reader.close()
                try directory.wait("bytes on disk that are those of the index") {
                    try Set(directory.blobs.map(\.name)) == Set(indexed(observer).keys)
                }
            }
        }

        @Test("equal bytes at several addresses are there once, and stay until the last of them is removed")
        func equalBytes() throws {
            try AgentHome.withImages { home, origin in
                let image = MadeImage(.gif, seed: 5, size: 5_000)
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
                // The lease on it is the last reference.
                #expect(directory.blobs.count == 1)
                client.close()
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }

        @Test("an agent whose limit was lowered meanwhile is ready and answers before it has made room")
        func lowered() throws {
            try AgentHome.withImages { home, origin in
                for number in 0..<100 {
                    try origin.put(MadeImage(.png, seed: number, size: 20_000), "\(number).png")
                }
                let urls = (0..<100).map { JSONValue.string(origin.url("fresh", "\($0).png")) }
                let first = try home.start()
                #expect(try first.ask("image.prefetch", ["urls": .array(urls)])["fetched"] == 100)
                let directory = CacheDirectory(of: home)
                #expect(directory.bytes == 2_000_000)
                #expect(try first.stop() == .exit(0))

                try home.write(settings: AgentHome.imageSettings("maximumBytes: 100000, imageBytes: 50000"))
                let second = try home.start()
                let client = try second.connect()
                #expect(try client.call("config.get")["value"] == [:])
                // It makes room by itself, and is of use meanwhile.
                let served = try ServedImage(try client.image(origin.url("fresh", "99.png")))
                #expect(try served.verifiedBytes().count == 20_000)
                try directory.wait("a cache within its limit") { directory.diskBytes <= 100_000 }
                #expect(try served.verifiedBytes().count == 20_000)
            }
        }

        @Test(
            "a full disk: what is held is served, the rest is refused with a reason, and nothing held is harmed",
            .enabled("needs root, to mount a small file system of its own") { SmallDisk.isPossible })
        func fullDisk() throws {
            try AgentHome.withImages { home, origin in
                let disk = try SmallDisk(at: home.directory + "/cache", bytes: 4 << 20)
                defer { disk.remove() }
                let images = (0..<40).map { MadeImage(.webp, seed: $0, size: 200_000) }
                for (number, image) in images.enumerated() { try origin.put(image, "\(number).webp") }
                let agent = try home.start()
                let client = try agent.connect()
                // Pinned, so that none of them can make room for the next.
                var held: [Int] = []
                var refusal: LineClient.Refusal?
                for number in images.indices where refusal == nil {
                    do {
                        try client.call("image.pin", ["url": .string(origin.url("fresh", "\(number).webp"))])
                        held.append(number)
                    } catch let error as LineClient.Refusal {
                        refusal = error
                    }
                }
                #expect(held.count > 5)
                #expect(refusal.map { ["noRoom", "storageFailed"].contains($0.name) } == true, "\(refusal as Any)")
                for number in held {
                    let served = try ServedImage(try client.image(origin.url("fresh", "\(number).webp")))
                    #expect(served.source == "hit")
                    #expect(try served.isWhole(images[number]))
                }
                // There is room only if one that could not be pinned any more gives way.
                do {
                    let more = try ServedImage(try client.image(origin.url("fresh", "39.webp")))
                    #expect(try more.isWhole(images[39]))
                } catch let error as LineClient.Refusal {
                    #expect(["noRoom", "storageFailed"].contains(error.name), "\(error)")
                }
                // Images can be unpinned and removed even if not a single block is free.
                let filler = try disk.fill()
                try client.call("image.unpin", ["url": .string(origin.url("fresh", "\(held[0]).webp"))])
                client.close()
                let next = try agent.connect()
                try next.call("image.remove", ["url": .string(origin.url("fresh", "\(held[0]).webp"))])
                try FileManager.default.removeItem(atPath: filler)
                // Downloads resume when there is space again.
                let last = try retrying { try ServedImage(try next.image(origin.url("fresh", "39.webp"))) }
                #expect(try last.isWhole(images[39]))
                next.close()
                #expect(try agent.stop() == .exit(0))
                // And nothing of what was held is missing after a restart.
                let again = try home.start()
                let reader = try again.connect()
                for number in held.dropFirst() {
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

/// A file system in memory with little room.
struct SmallDisk {
    private let path: String

    /// Whether this process may mount one; says so if not, since a test is left out then.
    static let isPossible: Bool = {
        do {
            try withTemporaryDirectory { try SmallDisk(at: $0, bytes: 1 << 20).remove() }
            return true
        } catch {
            print("NOT TESTED: a full disk, because no file system can be mounted here: \(error)")
            return false
        }
    }()

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

    /// Unmounts the file system, also while a process has a file open on it.
    func remove() { _ = try? Command.run("umount", ["-l", path]) }
}
