import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("One image, many clients")
    struct ImageCrowdTests {
        private static let image = MadeImage(.png, seed: 1, size: 400_000)

        /// An origin that stops in the middle of an image until a test says so. It is never silent for long, nor too slow
        /// to be borne: that the machine is slow is no reason to give it up.
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

            /// Sends a little more if there was nothing for a second.
            func sendSome() {
                guard sent < 390_000, lastTime.duration(to: .now) > .seconds(1) else { return }
                origin.send(Array(image.bytes[sent..<(sent + 2_500)]))
                sent += 2_500
                lastTime = .now
            }

            func sendTheRest() { origin.send(Array(image.bytes.dropFirst(sent))) }
        }

        /// 1,000 clients that wait for one image, of which the origin has sent a part.
        private func withCrowd(
            _ body: (AgentHome, AgentProcess, ImageOrigin, SlowOrigin, [(client: LineClient, id: Int)]) throws -> Void
        ) throws {
            raiseDescriptorLimit()
            let slow = try SlowOrigin()
            defer { slow.origin.stop() }
            try AgentHome.withImages(gate: slow.origin) { home, origin in
                let agent = try home.start()
                let url = origin.url("gate", "one.png")
                let clients = try (0..<1_000).map { _ in try agent.connect() }
                let crowd = try clients.map { (client: $0, id: try $0.requestImage(url)) }
                try slow.origin.request()
                try agent.connect().call("agent.stats") { statistics in
                    slow.sendSome()
                    return (statistics["images"]?["joined"]?.int ?? 0) >= 999
                        && (statistics["images"]?["downloadedBytes"]?.int ?? 0) > 0
                }
                try body(home, agent, origin, slow, crowd)
                for client in clients { client.close() }
            }
        }

        @Test("1,000 clients ask for one image at once: its origin sees one request, and each client has all of it")
        func atOnce() throws {
            try withCrowd { home, _, origin, slow, crowd in
                slow.sendTheRest()
                var sources: [String: Int] = [:]
                for (number, member) in crowd.enumerated() {
                    let served = try ServedImage(try member.client.reply(to: member.id))
                    #expect(served.digest == Self.image.digest)
                    sources[served.source, default: 0] += 1
                    if number.isMultiple(of: 100) { #expect(try served.isWhole(Self.image)) }
                }
                #expect(sources == ["miss": 1, "joined": 999])
                #expect(CacheDirectory(of: home).blobs.map(\.bytes) == [Self.image.bytes.count])
                #expect(try origin.counts() == ["/gate/one.png": 1])
            }
        }

        @Test("half of 1,000 clients go away or cancel in the middle: the others have their image, by the same request")
        func halfCancels() throws {
            try withCrowd { _, _, origin, slow, crowd in
                for (number, member) in crowd.enumerated() where number < 500 {
                    if number.isMultiple(of: 2) {
                        member.client.close()
                    } else {
                        let reply = try member.client.call("request.cancel", ["id": .int(member.id)])
                        #expect(reply["cancelled"] == true)
                        let refusal = #expect(throws: LineClient.Refusal.self) {
                            try member.client.reply(to: member.id)
                        }
                        #expect(refusal?.name == "cancelled")
                    }
                    slow.sendSome()
                }
                slow.sendTheRest()
                for member in crowd[500...] {
                    let served = try ServedImage(try member.client.reply(to: member.id))
                    #expect(served.digest == Self.image.digest)
                }
                let last = try ServedImage(try crowd[999].client.image(origin.url("gate", "one.png")))
                #expect(last.source == "hit")
                #expect(try last.isWhole(Self.image))
                #expect(try origin.counts() == ["/gate/one.png": 1])
            }
        }

        @Test("all of 1,000 clients go away: the origin sees the connection close, and nothing is left on disk")
        func allCancel() throws {
            try withCrowd { home, agent, origin, slow, crowd in
                let directory = CacheDirectory(of: home)
                #expect(directory.temporary.count == 1)
                for (number, member) in crowd.enumerated() {
                    if number.isMultiple(of: 2) {
                        member.client.close()
                    } else {
                        try member.client.call("request.cancel", ["id": .int(member.id)])
                    }
                }
                // nginx closes its own side when its client is gone.
                try slow.origin.disconnection()
                try origin.requests("a request that was broken off") { requests in
                    requests.contains { $0.path == "/gate/one.png" && !$0.isComplete }
                }
                try directory.wait("an empty cache") { directory.bytes == 0 }
                let client = try agent.connect()
                try client.waitForImages("flights", toBe: 0)
                #expect(try client.imageStatistics()["reservedBytes"] == 0)
                #expect(try client.images().isEmpty)
                #expect(try origin.counts() == ["/gate/one.png": 1])
                // It is not held against the image that nobody waited for it.
                slow.origin.answer(.image(Self.image))
                #expect(try ServedImage(try client.image(origin.url("gate", "one.png"))).isWhole(Self.image))
            }
        }

        @Test("an image that may not be kept is fetched once for all who wait, none of whom waits for another")
        func notKept() throws {
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
                // It stays for those who read it, and no longer.
                for client in clients + [observer] { client.close() }
                let directory = CacheDirectory(of: home)
                try directory.wait("an empty cache") { directory.bytes == 0 }
            }
        }
    }
}
