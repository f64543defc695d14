import Foundation
import LarderJSON
import LarderUpstream
import Testing

@testable import LarderImages
@testable import LarderServer

@Suite("Image requests on a connection")
struct ImageConnectionTests {
    private let url = "http://h/a.png"

    @Test("requests for one image share a lease, which ends after one release per request")
    func lease() async throws {
        try await ImageFixture.with { fixture, client in
            let first = try await client.get(url)["result"]
            #expect(first?["source"]?.string == "miss" && first?["width"]?.int == 7 && first?["lease"]?.int == 1)
            #expect(FileManager.default.fileExists(atPath: first?["path"]?.string ?? ""))
            for id in 2...3 {
                let again = try await client.get(url, id: id)
                #expect(again["id"]?.int == id && again["result"]?["source"]?.string == "hit")
                #expect(again["result"]?["lease"]?.int == 1)
                #expect(again["result"]?["path"] == first?["path"])
            }
            #expect(try fixture.references(to: url) == 2)
            for isLeased in [true, true, true, false] {
                let reply = try await client.call(#"{"id":9,"method":"image.release","params":{"lease":1}}"#)
                #expect(reply["result"]?["released"]?.bool == isLeased)
            }
            #expect(try fixture.references(to: url) == 1)
        }
    }

    @Test("all leases end when the connection ends")
    func connectionEnds() async throws {
        try await ImageFixture.with { fixture, client in
            for name in ["a", "b", "a"] { _ = try await client.get("http://h/\(name)", #","leaseSeconds":0"#) }
            #expect(try fixture.references(to: "http://h/a") == 2)
            try await client.end()
            #expect(try fixture.references(to: "http://h/a") == 1)
            #expect(try fixture.references(to: "http://h/b") == 1)
        }
    }

    @Test("a user has a maximum number of leases; leased images can still be requested, and the agent's user is exempt")
    func leasesOfUser() async throws {
        var limits = ConnectionLimits()
        limits.leasesPerUser = 1
        try await ImageFixture.with(peer: .stranger, limits: limits) { [limits] fixture, client in
            for _ in 0..<2 { #expect(try await client.get("http://h/a")["result"]?["lease"]?.int == 1) }
            // The first reply is read from the network, the second from the cache, and the third is found with the
            // template of its line.
            for _ in 0..<3 {
                let error = try await client.get("http://h/b")["error"]?["data"]
                #expect(error?["name"]?.string == "limitExceeded")
                #expect(error?["detail"]?.string?.contains("limits.leasesPerUser") == true)
            }
            #expect(try fixture.references(to: "http://h/b") == 1)
            for _ in 0..<2 { _ = try await client.call(#"{"id":9,"method":"image.release","params":{"lease":1}}"#) }
            #expect(try await client.get("http://h/b")["result"]?["lease"]?.int == 2)
            try await client.end()
            #expect(try fixture.references(to: "http://h/b") == 1)
            let own = try await fixture.connect(peer: .own, limits: limits)
            for name in ["a", "b"] { #expect(try await own.get("http://h/\(name)")["result"] != nil) }
        }
    }

    @Test("an image that arrives after a client has disconnected is not leased to that client")
    func disconnected() async throws {
        try await ImageFixture.with { fixture, client in
            // Another client waits for the same image, so the download continues when the first client disconnects.
            let other = try await fixture.connect()
            fixture.gate.shut()
            try await client.send(ImageClient.request(url))
            try await other.send(ImageClient.request(url))
            await fixture.gate.waitForRequest()
            try await client.end()
            fixture.gate.open()
            #expect(try await other.read(1).lines[0]["result"]?["lease"]?.int == 1)
            try await other.end()
            #expect(try fixture.references(to: url) == 1)
        }
    }

    @Test("a request fails at its deadline, and a later request gets the image")
    func deadline() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            let reply = try await client.get(url, #","deadlineMilliseconds":1"#)
            #expect(reply["error"]?["data"]?["name"]?.string == "timeout")
            fixture.gate.open()
            #expect(try await client.get(url)["result"]?["lease"]?.int == 1)
        }
    }

    @Test("the error of a cancelled request names the request")
    func cancel() async throws {
        try await ImageFixture.with { fixture, client in
            fixture.gate.shut()
            try await client.send(ImageClient.request(url, id: 5))
            await fixture.gate.waitForRequest()
            try await client.send(#"{"id":6,"method":"request.cancel","params":{"id":5}}"#)
            let replies = try await client.read(2).lines
            let cancelled = replies.first { $0["id"]?.int == 5 }
            #expect(cancelled?["error"]?["data"]?["name"]?.string == "cancelled")
            #expect(cancelled?["error"]?["data"]?["detail"]?.string?.contains("request 5") == true)
        }
    }

    @Test("every descriptor that a client gets starts at offset 0; a request in a batch cannot get a descriptor")
    func descriptor() async throws {
        try await ImageFixture.with { _, client in
            for id in 1...3 {
                try await client.send(ImageClient.request(url, #","as":"descriptor""#, id: id))
                let (lines, files) = try await client.read(1)
                #expect(lines[0]["result"]?["descriptor"]?.bool == true && files.count == 1)
                for file in files {
                    let bytes = FileHandle(fileDescriptor: file, closeOnDealloc: true).readDataToEndOfFile()
                    #expect(Array(bytes) == ImageFixture.png + Array(url.utf8))
                }
            }
            let reply = try await client.call("[\(ImageClient.request(url, #","as":"descriptor""#))]")
            #expect(reply[0]?["error"]?["data"]?["name"]?.string == "invalidParams")
            let path = try await client.call("[\(ImageClient.request(url))]")
            #expect(path[0]?["result"]?["lease"]?.int == 1)
        }
    }

    @Test(
        "a client that reads late gets every reply, and every descriptor if it accepts descriptors",
        arguments: [true, false])
    func fullSocket(takesDescriptors: Bool) async throws {
        try await ImageFixture.with { _, client in
            _ = try await client.get(url)
            let count = 2000
            let lines = (0..<count).map { id in
                ImageClient.request(url, id % 3 == 0 ? #","as":"descriptor""# : "", id: id)
            }
            // Send and read concurrently: the agent reads no more requests while its replies are unread, so the client
            // cannot send everything first.
            async let sending: Void = client.send(lines.joined(separator: "\n"))
            let (replies, files) = try await client.read(count, takesDescriptors: takesDescriptors)
            try await sending
            for file in files { close(file) }
            let ids = replies.compactMap { $0["id"]?.int }
            #expect(Set(ids) == Set(0..<count) && ids.count == count)
            // Replies with a descriptor may be delayed by open(2). Replies without a descriptor arrive in order.
            let plain = ids.filter { $0 % 3 != 0 }
            #expect(plain == plain.sorted())
            let passing = replies.filter { $0["result"]?["descriptor"]?.bool == true }
            #expect(passing.count == ids.count - plain.count && passing.allSatisfy { ($0["id"]?.int ?? 1) % 3 == 0 })
            // recvmsg(2) stops before the next byte that carries descriptors, so no descriptor is lost.
            if takesDescriptors { #expect(files.count == passing.count) }
        }
    }

    @Test("at most connectionsPerUser files are queued for a user whose client does not read")
    func unreceivedFiles() async throws {
        var limits = ConnectionLimits()
        limits.connectionsPerUser = 8
        try await ImageFixture.with(peer: .stranger, limits: limits) { fixture, client in
            fixture.gate.shut()
            let lines = (0..<40).map { ImageClient.request("\(url)\($0)", #","as":"descriptor""#, id: $0) }
            try await client.send(lines.joined(separator: "\n"))
            await fixture.gate.waitForRequest()
            fixture.gate.open()
            await client.waitForAnswers()
            let (replies, files) = try await client.read(40)
            for file in files { close(file) }
            let errors = replies.compactMap { $0["error"]?["data"]?["name"]?.string }
            #expect(files.count == OutboundQueue.maxDescriptorsInFlight + 8)
            #expect(errors == Array(repeating: "limitExceeded", count: 40 - files.count))
            // The client has received the files, so the agent sends it a file again.
            try await client.send(ImageClient.request(url, #","as":"descriptor""#))
            let (again, file) = try await client.read(1)
            for file in file { close(file) }
            #expect(file.count == 1 && again[0]["result"]?["descriptor"]?.bool == true)
        }
    }

    @Test("a prefetch reports its progress up to the last image and lists each failure")
    func prefetch() async throws {
        try await ImageFixture.with { _, client in
            _ = try await client.get("http://h/1")
            try await client.send(
                """
                {"id":"p","method":"image.prefetch","params":{"urls":\
                ["http://h/1","http://h/2","http://h/missing",{"url":"http://h/3"},"nonsense"]}}
                """)
            var lines: [JSONValue] = []
            while lines.last?["result"] == nil { lines += try await client.read(1).lines }
            for line in lines.dropLast() { #expect(line["method"]?.string == "image.progress") }
            let last = lines.dropLast().last?["params"]
            #expect(last?["request"]?.string == "p" && last?["total"]?.int == 5)
            #expect(last?["done"]?.int == 3 && last?["failed"]?.int == 2)
            let result = lines.last?["result"]
            #expect(result?["fetched"]?.int == 2 && result?["cached"]?.int == 1 && result?["failed"]?.int == 2)
            #expect(
                result?["failures"]?.elements.map { $0["name"]?.string } == ["upstreamFailed", "invalidParams"])
        }
    }

    @Test("a request for a cached image counts as one hit, even if it waits for open(2)")
    func hits() async throws {
        try await ImageFixture.with { fixture, client in
            _ = try await client.get(url)
            // All lines arrive at once, before the file for the first request is open.
            let lines = (1...4).map { ImageClient.request(url, #","as":"descriptor""#, id: $0) }
            try await client.send(lines.joined(separator: "\n"))
            let (replies, files) = try await client.read(4)
            for file in files { close(file) }
            #expect(Set(replies.compactMap { $0["id"]?.int }) == [1, 2, 3, 4] && files.count == 4)
            #expect(fixture.images.cache.view.statistics.hits == 4)
        }
    }

    @Test("a pin of an image with no-store downloads the image once and fails with the reason")
    func pinWithNoStore() async throws {
        try await ImageFixture.with { fixture, client in
            let reply = try await client.call(#"{"id":1,"method":"image.pin","params":{"url":"http://h/no-store"}}"#)
            #expect(reply["error"]?["data"]?["name"]?.string == "notFound")
            #expect(reply["error"]?["data"]?["detail"]?.string?.contains("no-store") == true)
            #expect(fixture.images.cache.view.statistics.misses == 1)
            let other = try await client.call(#"{"id":1,"method":"image.pin","params":{"url":"\#(url)"}}"#)
            #expect(other["result"]?["pinned"]?.bool == true)
        }
    }

    @Test("only the users and groups that the settings list get images of an origin with a credential")
    func rights() async throws {
        let origin = try ImageOrigin(
            "http://h", credential: HTTPAccess(headers: ["X-Key": "k"]), users: [4711],
            groups: [42])
        var (user, member, stranger) = (
            PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1)
        )
        user.uid = 4711
        member.groups = [7, 42]
        stranger.uid = 4712
        try await ImageFixture.with([origin], peer: stranger) { fixture, client in
            for peer in [user, member] {
                let other = try await fixture.connect(peer: peer)
                #expect(try await other.get(url)["result"]?["lease"]?.int == 1)
            }
            for method in ["image.get", "image.peek", "image.pin", "image.unpin", "image.remove"] {
                let reply = try await client.call(#"{"id":1,"method":"\#(method)","params":{"url":"\#(url)"}}"#)
                #expect(reply["error"]?["data"]?["name"]?.string == "denied", "\(method)")
                #expect(reply["error"]?["data"]?["detail"]?.string?.contains("images.origins") == true)
            }
            let list = try await client.call(#"{"id":1,"method":"image.list"}"#)
            #expect(list["result"]?["images"]?.count == 0)
            #expect(try await client.get("http://other/a")["result"]?["lease"]?.int == 1)
            let cleared = try await client.call(#"{"id":1,"method":"image.clear","params":{"includingPinned":true}}"#)
            #expect(cleared["result"]?["removed"]?.int == 1)
            let other = try await fixture.connect(peer: user)
            #expect(try await other.get(url)["result"]?["source"]?.string == "hit")
            #expect(try await other.call(#"{"id":1,"method":"image.clear"}"#)["result"]?["removed"]?.int == 1)
        }
    }

    @Test("a repeated request for a cached image is denied after the peer loses the right `images`")
    func lostRight() async throws {
        var peer = PeerCredentials.stranger
        peer.uid = 4711
        try await ImageFixture.with(peer: peer) { fixture, client in
            let granting = fixture.context.rules
            for _ in 0..<2 {
                for _ in 0..<2 { #expect(try await client.get(url)["result"]?["lease"]?.int == 1) }
                #expect(fixture.context.use(AccessRules()))
                for _ in 0..<2 {
                    let data = try await client.get(url)["error"]?["data"]
                    #expect(data?["name"]?.string == "denied" && data?["right"]?.string == "images")
                }
                #expect(fixture.context.use(granting))
            }
            #expect(!fixture.context.use(granting), "equal rules are not a change")
        }
    }

    @Test(
        "a request is denied if its user is removed from the origin's users before the image arrives",
        arguments: ["", #","as":"descriptor""#])
    func removedUser(_ delivery: String) async throws {
        try await withRemoval(during: ImageClient.request(url, delivery)) { fixture, reply, files in
            #expect(reply["error"]?["data"]?["name"]?.string == "denied")
            #expect(reply["error"]?["data"]?["detail"]?.string?.contains("images.origins") == true)
            #expect(files.isEmpty)
            let references = try fixture.references(to: url)
            #expect(references == 1)
        }
    }

    @Test("a prefetch and a pin fail if their user is removed from the origin's users during the download")
    func removedUserInBackground() async throws {
        let urls = #"["\#(url)","\#(url)/2","\#(url)/3"]"#
        let prefetch =
            #"{"id":1,"method":"image.prefetch","params":{"urls":\#(urls),"concurrency":1,"progress":false}}"#
        try await withRemoval(during: prefetch) { fixture, reply, _ in
            #expect(reply["result"]?["failed"]?.int == 3)
            let names = reply["result"]?["failures"]?.elements.map { $0["name"]?.string }
            #expect(names == ["denied", "denied", "denied"])
            #expect(fixture.images.cache.view.statistics.misses == 1, "no further download starts")
        }
        let pin = #"{"id":1,"method":"image.pin","params":{"url":"\#(url)"}}"#
        try await withRemoval(during: pin) { fixture, reply, _ in
            #expect(reply["error"]?["data"]?["name"]?.string == "denied")
            let row = try await fixture.images.cache.list(after: nil, limit: 1).rows.first
            #expect(row?.isPinned == false)
        }
    }

    /// Sends a request and removes its user from the users of the origin during the download.
    private func withRemoval(
        during request: String, _ body: (ImageFixture, JSONValue, [CInt]) async throws -> Void
    ) async throws {
        var origin = try ImageOrigin("http://h", credential: HTTPAccess())
        origin.users = [4711]
        var user = PeerCredentials.stranger
        user.uid = 4711
        try await ImageFixture.with([origin], peer: user) { fixture, client in
            fixture.gate.shut()
            try await client.send(request)
            await fixture.gate.waitForRequest()
            var settings = fixture.settings
            settings.origins[0].users = []
            await fixture.images.cache.applyToCatalog(settings)
            fixture.gate.open()
            let (lines, files) = try await client.read(1)
            try await body(fixture, lines[0], files)
        }
    }

    @Test("users who were removed from an origin are denied even before the cache enforces its new limits")
    func reloadedRights() async throws {
        var origin = try ImageOrigin("http://h", credential: HTTPAccess())
        origin.users = [4711]
        var user = PeerCredentials(descriptor: -1)
        user.uid = 4711
        try await ImageFixture.with([origin], peer: user) { fixture, client in
            let first = try await client.get(url)
            #expect(first["result"]?["lease"]?.int == 1)
            let before = fixture.images.settingsVersion
            var settings = fixture.settings
            settings.origins[0].users = []
            // This is the first step of a reload. The cache enforces its new limits only in a later step.
            await fixture.images.cache.applyToCatalog(settings)
            #expect(fixture.images.settingsVersion > before)
            let later = try await client.get(url)
            #expect(later["error"]?["data"]?["name"]?.string == "denied")
        }
    }
}
