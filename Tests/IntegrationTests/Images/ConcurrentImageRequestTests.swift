import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Concurrent requests for one image")
    struct ConcurrentImageRequestTests {
        private static let image = TestImage(.png, seed: 1, size: 400_000)

        /// An origin that sends a part of an image, and sends the rest only when ``sendRemainder()`` is called. Calls
        /// of ``sendSome()`` before that prevent the agent from aborting the download as stalled or too slow on a busy
        /// machine.
        private final class SlowOrigin {
            let origin: RawOrigin
            private var sent = 50_000
            private var lastTime = ContinuousClock.now

            init() throws {
                let head = """
                    HTTP/1.1 200 OK\r\nContent-Length: \(image.bytes.count)\r\nContent-Type: image/png\r
                    Cache-Control: max-age=3600\r\nConnection: close\r\n\r\n
                    """
                origin = try .listening(.bytes(Array(head.utf8) + image.bytes.prefix(sent), thenClose: false))
            }

            /// Sends 2,500 bytes if the last call that sent bytes was more than 1 s ago.
            func sendSome() {
                guard sent < 390_000, lastTime.duration(to: .now) > .seconds(1) else { return }
                origin.send(Array(image.bytes[sent..<(sent + 2_500)]))
                sent += 2_500
                lastTime = .now
            }

            func sendRemainder() { origin.send(Array(image.bytes.dropFirst(sent))) }
        }

        /// Runs `body` while 1,000 clients wait for one image. The origin has sent a part of it.
        private func withWaitingClients(
            _ body: (AgentHome, AgentProcess, ImageOrigin, SlowOrigin, [(client: LineClient, id: Int)]) throws -> Void
        ) throws {
            raiseDescriptorLimit()
            let slow = try SlowOrigin()
            defer { slow.origin.stop() }
            try AgentHome.withImages(gate: slow.origin) { home, origin in
                let agent = try home.start()
                let url = origin.url("gate", "one.png")
                let clients = try (0..<1_000).map { _ in try agent.connect() }
                let waiters = try clients.map { (client: $0, id: try $0.requestImage(url)) }
                try slow.origin.request()
                try agent.connect().call("agent.stats") { statistics in
                    slow.sendSome()
                    return (statistics["images"]?["joined"]?.int ?? 0) >= 999
                        && (statistics["images"]?["downloadedBytes"]?.int ?? 0) > 0
                }
                try body(home, agent, origin, slow, waiters)
                for client in clients { client.close() }
            }
        }

        @Test("1,000 concurrent requests for one image cause one download, and each client gets the whole image")
        func atOnce() throws {
            try withWaitingClients { home, _, origin, slow, waiters in
                slow.sendRemainder()
                var sources: [String: Int] = [:]
                for (number, waiter) in waiters.enumerated() {
                    let served = try ServedImage(try waiter.client.reply(to: waiter.id))
                    #expect(served.digest == Self.image.digest)
                    sources[served.source, default: 0] += 1
                    if number.isMultiple(of: 100) { #expect(try served.isWhole(Self.image)) }
                }
                #expect(sources == ["miss": 1, "joined": 999])
                #expect(CacheDirectory(of: home).blobs.map(\.bytes) == [Self.image.bytes.count])
                #expect(try origin.counts() == ["/gate/one.png": 1])
            }
        }

        @Test("if half of 1,000 waiting clients disconnect or cancel, the others get the image from the same download")
        func halfCancels() throws {
            try withWaitingClients { _, _, origin, slow, waiters in
                for (number, waiter) in waiters.enumerated() where number < 500 {
                    if number.isMultiple(of: 2) {
                        waiter.client.close()
                    } else {
                        let reply = try waiter.client.call("request.cancel", ["id": .int(waiter.id)])
                        #expect(reply["cancelled"] == true)
                        let refusal = #expect(throws: LineClient.Refusal.self) {
                            try waiter.client.reply(to: waiter.id)
                        }
                        #expect(refusal?.name == "cancelled")
                    }
                    slow.sendSome()
                }
                slow.sendRemainder()
                for waiter in waiters[500...] {
                    let served = try ServedImage(try waiter.client.reply(to: waiter.id))
                    #expect(served.digest == Self.image.digest)
                }
                let last = try ServedImage(try waiters[999].client.image(origin.url("gate", "one.png")))
                #expect(last.source == "hit")
                #expect(try last.isWhole(Self.image))
                #expect(try origin.counts() == ["/gate/one.png": 1])
            }
        }

        @Test("if all 1,000 waiting clients disconnect or cancel, the download is aborted and no file is left")
        func allCancel() throws {
            try withWaitingClients { home, agent, origin, slow, waiters in
                let directory = CacheDirectory(of: home)
                try directory.wait("the file of the download") { directory.temporary.count == 1 }
                for (number, waiter) in waiters.enumerated() {
                    if number.isMultiple(of: 2) {
                        waiter.client.close()
                    } else {
                        try waiter.client.call("request.cancel", ["id": .int(waiter.id)])
                    }
                }
                // nginx closes its connection to the slow origin when the agent disconnects.
                try slow.origin.disconnection()
                try origin.requests("an aborted request") { requests in
                    requests.contains { $0.path == "/gate/one.png" && !$0.isComplete }
                }
                try directory.wait("an empty cache") { directory.bytes == 0 }
                let client = try agent.connect()
                try client.waitForImages("activeDownloads", toBe: 0)
                #expect(try client.imageStatistics()["reservedBytes"] == 0)
                #expect(try client.images().isEmpty)
                #expect(try origin.counts() == ["/gate/one.png": 1])
                // The cancelled download is not cached as a failure.
                slow.origin.answer(.image(Self.image))
                #expect(try ServedImage(try client.image(origin.url("gate", "one.png"))).isWhole(Self.image))
            }
        }

        @Test("an image with no-store is fetched once for all waiting clients and is not cached")
        func noStore() throws {
            let gate = try RawOrigin.listening(.hang)
            defer { gate.stop() }
            try AgentHome.withImages(gate: gate) { home, origin in
                let agent = try home.start()
                let clients = try (0..<50).map { _ in try agent.connect() }
                let url = origin.url("gate", "one.png")
                let ids = try clients.map { try $0.requestImage(url) }
                let observer = try agent.connect()
                try observer.waitForImages("joined", atLeast: 49)
                gate.answer(.image(Self.image, "Cache-Control: no-store"))
                for (client, id) in zip(clients, ids) {
                    #expect(try ServedImage(try client.reply(to: id)).isWhole(Self.image))
                }
                #expect(try origin.counts() == ["/gate/one.png": 1])
                #expect(try observer.images().isEmpty)
                #expect(try ServedImage(try observer.image(url)).source == "miss")
                #expect(try origin.counts() == ["/gate/one.png": 2])
                // The file is deleted when the last lease on it ends.
                for client in clients + [observer] { client.close() }
                let directory = CacheDirectory(of: home)
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }
    }
}
