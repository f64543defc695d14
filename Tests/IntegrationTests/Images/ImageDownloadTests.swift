import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Downloads in progress")
    struct ImageDownloadTests {
        private static let image = TestImage(.png, seed: 1, size: 100_000)
        private static let half = 50_000

        /// Runs a test with an origin that sends half of the image. The test lets it send the rest.
        private func withOrigin(_ body: (AgentHome, RawOrigin) throws -> Void) throws {
            let bytes = Self.image.bytes
            let head = "HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\nCache-Control: max-age=60\r\n\r\n"
            let origin = try RawOrigin.listening { _, _ in [.send(head), .send(Array(bytes.prefix(Self.half)))] }
            defer { origin.stop() }
            try AgentHome.with(settings: AgentHome.imageSettings("")) { home in try body(home, origin) }
        }

        /// Reads notifications until bytes have arrived. Returns the last one.
        private func waitForBytes(_ client: LineClient) throws -> JSONValue {
            while true {
                let progress = try require(try client.message()["params"], "progress")
                if progress["receivedBytes"]?.int ?? 0 > 0 { return progress }
            }
        }

        @Test("progress grows to the size of the image, a second client shares the download, and both are listed")
        func progress() throws {
            try withOrigin { home, origin in
                let agent = try home.start()
                let (first, second, observer) = (try agent.connect(), try agent.connect(), try agent.connect())
                let url = origin.url + "a.png"
                let id = try first.requestImage(url, ["progress": true])
                let begun = try waitForBytes(first)
                #expect(begun["request"]?.int == id && begun["shared"]?.bool == false)
                #expect(begun["totalBytes"]?.int == Self.image.bytes.count)
                let secondID = try second.requestImage(url, ["progress": true])
                #expect(try waitForBytes(second)["shared"]?.bool == true)

                let downloads = try require(try observer.call("image.downloads")["downloads"], "downloads")
                let download = try require(downloads[0], "a download")
                #expect(downloads.count == 1 && download["url"]?.string == url && download["requests"]?.int == 2)
                #expect(download["state"]?.string == "running" && download["priority"]?.string == "normal")
                #expect(download["totalBytes"]?.int == Self.image.bytes.count)
                #expect((1...Self.half).contains(download["receivedBytes"]?.int ?? 0))
                #expect(try observer.call("image.peek", ["url": .string(url)])["download"]?["id"] == download["id"])

                origin.send(Array(Self.image.bytes.dropFirst(Self.half)))
                var received = [begun["receivedBytes"]?.int ?? 0]
                var message = try first.message()
                while message["id"] == nil {
                    received.append(try require(message["params"]?["receivedBytes"]?.int, "receivedBytes"))
                    message = try first.message()
                }
                #expect(received == received.sorted() && received.last == Self.image.bytes.count)
                #expect(message["id"]?.int == id && message["result"]?["source"]?.string == "miss")
                #expect(try second.reply(to: secondID)["source"]?.string == "joined")
                #expect(try observer.call("image.downloads")["downloads"]?.count == 0)
                #expect(try observer.call("image.peek", ["url": .string(url)])["download"] == nil)
            }
        }

        @Test("cancelling a download ends the waiting requests and the connection to the origin")
        func cancel() throws {
            try withOrigin { home, origin in
                let agent = try home.start()
                let (client, observer) = (try agent.connect(), try agent.connect())
                let id = try client.requestImage(origin.url + "a.png", ["progress": true])
                _ = try waitForBytes(client)
                let downloads = try require(try observer.call("image.downloads")["downloads"], "downloads")
                let cancel: JSONValue = ["download": try require(downloads[0]?["id"], "id")]
                #expect(try observer.call("image.cancel", cancel)["requests"]?.int == 1)
                var message = try client.message()
                while message["id"] == nil { message = try client.message() }
                #expect(message["id"]?.int == id)
                #expect(message["error"]?["data"]?["name"]?.string == "cancelled")
                try origin.disconnection()
                #expect(try observer.call("image.downloads")["downloads"]?.count == 0)
                #expect(try observer.refusal("image.cancel", cancel).name == "notFound")
            }
        }
    }
}
