import CLinuxShims
import Foundation
import LarderJSON
import Testing

@testable import LarderImages
@testable import LarderServer

@Suite("Images passed as open files", .timeLimit(.minutes(15)))
struct ImagePutConnectionTests {
    private static func request(_ name: String, _ more: String = "", id: Int = 1) -> String {
        #"{"id":\#(id),"method":"image.put","params":{"url":"http://h/\#(name)","descriptor":true\#(more)}}"# + "\n"
    }

    private static func name(of reply: JSONValue) -> String? { reply["error"]?["data"]?["name"]?.string }

    /// Runs `body` with a file in memory, then waits until the agent has closed its descriptors of the file.
    private func with(
        _ bytes: [UInt8], peer: PeerCredentials = .own, _ body: (ImageFixture, ImageClient, CInt) async throws -> Void
    ) async throws {
        let file = try OpenFile.create(bytes)
        defer { close(file) }
        try await ImageFixture.with(peer: peer) { fixture, client in
            try await body(fixture, client, file)
            await OpenFile.waitUntilOnly(file)
        }
    }

    @Test("a passed file is stored from offset 0, whatever its file position", arguments: [0, 3_000_000])
    func put(more: Int) async throws {
        let bytes = ImageFixture.png + [UInt8](repeating: 7, count: more)
        try await with(bytes) { fixture, client, file in
            let position = lseek(file, 0, SEEK_CUR)
            try await client.send(Self.request("a"), passing: [file])
            let stored = try await client.read(1).lines[0]["result"]
            #expect(stored?["bytes"]?.int == bytes.count && stored?["width"]?.int == 7)
            #expect(lseek(file, 0, SEEK_CUR) == position)
            let cached = try await client.get("http://h/a", #","policy":"cacheOnly""#)["result"]
            #expect(cached?["digest"] == stored?["digest"])
            let path = try #require(cached?["path"]?.string)
            #expect(try Data(contentsOf: URL(filePath: path)) == Data(bytes))
        }
    }

    @Test("each of several pipelined requests gets the descriptor that came with its line")
    func pipelined() async throws {
        try await with(ImageFixture.png) { _, client, first in
            let second = try OpenFile.create(ImageFixture.png + [1])
            defer { close(second) }
            try await client.send(Self.request("a", id: 1), passing: [first])
            try await client.send(#"{"id":2,"method":"agent.ping"}"#)
            // `second` comes with the first ten bytes of its line. The next piece completes the line.
            let line = Self.request("b", id: 3)
            try await client.send(String(line.prefix(10)), passing: [second])
            try await client.send(
                String(line.dropFirst(10)) + #"{"id":4,"method":"agent.ping"}"# + "\n", passing: [])
            try await client.send(Self.request("c", id: 5), passing: [first])
            let replies = try await client.read(5).lines
            func bytes(_ id: Int) -> Int? { replies.first { $0["id"]?.int == id }?["result"]?["bytes"]?.int }
            let count = ImageFixture.png.count
            #expect(bytes(1) == count && bytes(3) == count + 1 && bytes(5) == count)
            await OpenFile.waitUntilOnly(second)
        }
    }

    @Test("descriptors that no request uses are closed, and the requests are served")
    func unused() async throws {
        try await with(ImageFixture.png) { _, client, file in
            for text in [
                "\n", "garbage\n", #"{"id":1,"method":"agent.ping"}"# + "\n", ImageClient.request("http://h/a") + "\n",
            ] {
                try await client.send(text, passing: [file])
                if text != "\n" { _ = try await client.read(1) }
                await OpenFile.waitUntilOnly(file)
            }
            for _ in 0..<300 { try await client.send(#"{"method":"agent.ping"}"# + "\n", passing: [file, file, file]) }
            #expect(try await client.call(#"{"id":2,"method":"agent.ping"}"#)["id"]?.int == 2)
            await OpenFile.waitUntilOnly(file)
            // The descriptor of one line is not available to the next.
            try await client.send("\n", passing: [file])
            try await client.send(Self.request("a"), passing: [])
            #expect(try await client.read(1).lines.first.flatMap(Self.name) == "invalidParams")
        }
    }

    @Test("of the descriptors that come with the pieces of a line, the first is used and the others are closed")
    func manyOfOneLine() async throws {
        try await with(ImageFixture.png) { _, client, file in
            let other = try OpenFile.create([1])
            defer { close(other) }
            let line = Self.request("a").map(String.init)
            try await client.send(line[0], passing: [file])
            for character in line.dropFirst() { try await client.send(character, passing: [other]) }
            #expect(try await client.read(1).lines[0]["result"]?["bytes"]?.int == ImageFixture.png.count)
            await OpenFile.waitUntilOnly(other)
        }
    }

    @Test("several descriptors in one message are rejected and closed", arguments: [2, 3, 16])
    func several(count: Int) async throws {
        try await with(ImageFixture.png) { _, client, file in
            try await client.send(Self.request("a"), passing: [CInt](repeating: file, count: count))
            let reply = try await client.read(1).lines[0]
            #expect(Self.name(of: reply) == "invalidParams", "\(reply)")
            await OpenFile.waitUntilOnly(file)
            try await client.send(Self.request("a"), passing: [file])
            #expect(try await client.read(1).lines[0]["result"] != nil)
        }
    }

    @Test("the descriptor of an incomplete line is closed when the client disconnects")
    func disconnected() async throws {
        try await with(ImageFixture.png) { fixture, client, file in
            try await client.send(String(Self.request("a").prefix(20)), passing: [file])
            try await client.end()
            await OpenFile.waitUntilOnly(file)
        }
    }

    @Test("a put fails if it is in a batch, has both a descriptor and inline bytes, or has neither")
    func misplaced() async throws {
        try await with(ImageFixture.png) { _, client, file in
            let batch = "[" + Self.request("a").dropLast() + "]\n"
            for (text, files) in [
                (batch, [file]), (Self.request("a", #","data":"AAAA""#), [file]), (Self.request("a"), []),
            ] {
                try await client.send(text, passing: files)
                let reply = try await client.read(1).lines[0]
                #expect(Self.name(of: reply[0] ?? reply) == "invalidParams", "\(text): \(reply)")
            }
        }
    }

    @Test("a put fails unless the descriptor is a readable memory file with a complete image")
    func unusable() async throws {
        try await ImageFixture.with { fixture, client in
            var ends: [CInt] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let plain = NSTemporaryDirectory() + "/larder-put-" + UUID().uuidString
            _ = FileManager.default.createFile(atPath: plain, contents: Data(ImageFixture.png))
            defer { _ = unlink(plain) }
            let large = larder_memfd_create("large")
            #expect(ftruncate(large, off_t(fixture.settings.space.bytesPerImage + 1)) == 0)
            let cases: [(CInt, String, String?)] = [
                (ends[0], "invalidParams", nil), (ends[1], "invalidParams", nil),
                (open("/", O_RDONLY), "invalidParams", nil), (open("/dev/zero", O_RDONLY), "invalidParams", nil),
                (open(plain, O_WRONLY), "invalidParams", nil),
                (open(plain, CInt(LARDER_O_PATH)), "invalidParams", nil),
                (large, "imageRejected", "tooLarge"), (try OpenFile.create([]), "imageRejected", "notAnImage"),
                (try OpenFile.create(ImageFixture.png.dropLast()), "imageRejected", "truncatedImage"),
                (open("/proc/self/status", O_RDONLY), "invalidParams", nil),
                (open("/proc/self/exe", O_RDONLY), "invalidParams", nil),
            ]
            for (file, name, reason) in cases {
                #expect(file >= 0)
                let count = OpenFile.count(of: file)
                try await client.send(Self.request("a"), passing: [file])
                let reply = try await client.read(1).lines[0]
                #expect(
                    Self.name(of: reply) == name && reply["error"]?["data"]?["reason"]?.string == reason, "\(reply)")
                await OpenFile.waitUntilOnly(file, count)
                close(file)
            }
            #expect(fixture.images.cache.view.statistics.entries == 0)
        }
    }

    @Test("a file that takes long to close delays neither replies nor the next put")
    func slowClose() async throws {
        try await ImageFixture.with { fixture, client in
            let closed = DispatchSemaphore(value: 0)
            // Simulates a close(2) that waits for a file server.
            fixture.images.closer.close(open("/dev/null", O_RDONLY)) { closed.wait() }
            // No other test opens this file.
            let plain = NSTemporaryDirectory() + "/larder-put-" + UUID().uuidString
            _ = FileManager.default.createFile(atPath: plain, contents: Data(ImageFixture.png))
            defer { _ = unlink(plain) }
            let foreign = open(plain, O_RDONLY)
            #expect(foreign >= 0)
            let count = OpenFile.count(of: foreign)
            try await client.send(Self.request("a", id: 1), passing: [foreign])
            #expect(Self.name(of: try await client.read(1).lines[0]) == "invalidParams")
            let memory = try OpenFile.create(ImageFixture.png)
            try await client.send(Self.request("a", id: 2), passing: [memory])
            let reply = try await client.read(1).lines[0]
            #expect(reply["result"]?["bytes"]?.int == ImageFixture.png.count, "\(reply)")
            #expect(OpenFile.count(of: foreign) == count + 1)
            closed.signal()
            await OpenFile.waitUntilOnly(foreign, count)
            close(foreign)
            close(memory)
        }
    }

    @Test("a put by a peer without the right fails, and its descriptor is closed")
    func stranger() async throws {
        try await with(ImageFixture.png, peer: .stranger) { _, client, file in
            try await client.send(Self.request("a"), passing: [file])
            #expect(try await client.read(1).lines.first.flatMap(Self.name) == "denied")
            try await client.send(ImageClient.request("http://h/a") + "\n", passing: [file])
            #expect(try await client.read(1).lines[0]["result"] != nil)
        }
    }
}
