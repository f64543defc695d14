import LarderJSON
import LarderUpstream
import Testing

@testable import LarderServer

@Suite("Downloads in progress")
struct ImageDownloadsTests {
    private let url = "http://h/a.png"
    private let progress = #","progress":true"#

    /// Reads until the reply to a request has arrived. Returns the notifications before it, and the reply.
    private func finish(_ client: ImageClient) async throws -> (progress: [JSONValue], reply: JSONValue?) {
        var lines: [JSONValue] = []
        while !lines.contains(where: { $0["id"] != nil }) { lines += try await client.read(1).lines }
        return (lines.dropLast().compactMap { $0["params"] }, lines.last)
    }

    @Test("a request for its progress is notified when it begins to wait, and of the last progress before its reply")
    func notifications() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            try await client.send(ImageClient.request(url, progress, id: 5))
            let first = try await client.read(1).lines[0]
            #expect(first["method"]?.string == "image.progress" && first["id"] == nil)
            #expect(first["params"]?["request"]?.int == 5 && first["params"]?["receivedBytes"]?.int == 0)
            #expect(first["params"]?["shared"]?.bool == false && first["params"]?["totalBytes"] == nil)
            fixture.gate.open()
            let (notifications, reply) = try await finish(client)
            let bytes = try #require(reply?["result"]?["bytes"]?.int)
            #expect(notifications.last?["receivedBytes"]?.int == bytes)
            #expect(notifications.last?["totalBytes"]?.int == bytes)
        }
    }

    @Test("the progress of a second request for the same image is shared")
    func shared() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            try await client.send(ImageClient.request(url))
            await fixture.gate.waitForRequest()
            let other = try await fixture.connect()
            try await other.send(ImageClient.request(url, progress))
            #expect(try await other.read(1).lines[0]["params"]?["shared"]?.bool == true)
            fixture.gate.open()
            #expect(try await finish(other).reply?["result"]?["source"]?.string == "joined")
            // The first request has not asked for its progress.
            #expect(try await client.read(1).lines[0]["result"]?["source"]?.string == "miss")
        }
    }

    @Test("a cached image sends no progress")
    func cached() async throws {
        try await ImageFixture.with { _, client in
            _ = try await client.get(url)
            for id in 2...4 { #expect(try await client.get(url, progress, id: id)["id"]?.int == id) }
        }
    }

    @Test("a download is listed with its requests, and image.peek shows it, until it ends")
    func list() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            let (first, second) = (try await fixture.connect(), try await fixture.connect())
            try await first.send(ImageClient.request(url, #","priority":"high""#))
            await fixture.gate.waitForRequest()
            try await second.send(ImageClient.request(url, progress))
            // The notification shows that the second request waits for the download.
            #expect(try await second.read(1).lines[0]["params"]?["shared"]?.bool == true)
            let list = try await client.call(#"{"id":1,"method":"image.downloads"}"#)["result"]?["downloads"]
            let download = try #require(list?[0])
            #expect(list?.count == 1 && download["requests"]?.int == 2)
            #expect(download["url"]?.string == url && download["state"]?.string == "running")
            #expect(download["receivedBytes"]?.int == 0 && download["totalBytes"] == nil)
            #expect(download["priority"]?.string == "high")
            let peek = try await client.call(#"{"id":2,"method":"image.peek","params":{"url":"\#(url)"}}"#)
            #expect(peek["result"]?["download"]?["id"] == download["id"])
            fixture.gate.open()
            _ = try await first.read(1)
            _ = try await finish(second)
            let after = try await client.call(#"{"id":3,"method":"image.downloads"}"#)
            #expect(after["result"]?["downloads"]?.count == 0)
        }
    }

    @Test("the URL is omitted for a user who may not have images of its origin")
    func restricted() async throws {
        let origin = try ImageOrigin(
            "http://h", credential: HTTPAccess(headers: ["X-Key": "k"]), users: [4711])
        var (user, stranger) = (PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1))
        user.uid = 4711
        stranger.uid = 4712
        try await ImageFixture.with([origin], peer: stranger) { fixture, client in
            fixture.gate.shut()
            let other = try await fixture.connect(peer: user)
            try await other.send(ImageClient.request(url))
            await fixture.gate.waitForRequest()
            let list = #"{"id":2,"method":"image.downloads"}"#
            let hidden = try await client.call(list)["result"]?["downloads"]
            #expect(hidden?.count == 1 && hidden?[0]?["url"] == nil && hidden?[0]?["requests"]?.int == 1)
            let third = try await fixture.connect(peer: user)
            #expect(try await third.call(list)["result"]?["downloads"]?[0]?["url"]?.string == url)
        }
    }

    @Test("the query of the URL is shown only to users who have requested this URL")
    func query() async throws {
        var (user, stranger) = (PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1))
        user.uid = 4711
        stranger.uid = 4712
        let signed = "http://h/a.png?signature=secret"
        try await ImageFixture.with([try ImageOrigin("http://h", users: [4711, 4712])], peer: stranger) {
            fixture, client in
            fixture.gate.shut()
            let other = try await fixture.connect(peer: user)
            try await other.send(ImageClient.request(signed))
            await fixture.gate.waitForRequest()
            let list = #"{"id":2,"method":"image.downloads"}"#
            #expect(try await client.call(list)["result"]?["downloads"]?[0]?["url"]?.string == url)
            let third = try await fixture.connect(peer: user)
            #expect(try await third.call(list)["result"]?["downloads"]?[0]?["url"]?.string == signed)
        }
    }

    @Test("cancelling a download fails its requests, and an unknown ID is refused")
    func cancel() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            let other = try await fixture.connect()
            try await other.send(ImageClient.request(url))
            await fixture.gate.waitForRequest()
            let list = try await client.call(#"{"id":1,"method":"image.downloads"}"#)["result"]?["downloads"]
            let id = try #require(list?[0]?["id"]?.int)
            let cancel = #"{"id":2,"method":"image.cancel","params":{"download":\#(id)}}"#
            #expect(try await client.call(cancel)["result"]?["requests"]?.int == 1)
            let error = try await other.read(1).lines[0]["error"]?["data"]
            #expect(error?["name"]?.string == "cancelled")
            #expect(error?["detail"]?.string?.contains("image.cancel") == true)
            #expect(try await client.call(cancel)["error"]?["data"]?["name"]?.string == "notFound")
            fixture.gate.open()
            #expect(try await other.get(url, id: 3)["result"]?["source"]?.string == "miss")
        }
    }
}
