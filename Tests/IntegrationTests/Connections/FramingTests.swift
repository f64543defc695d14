import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Line framing")
    struct FramingTests {
        @Test("a request that arrives byte by byte is answered when it is complete")
        func byteByByte() throws {
            try AgentHome.with { home in
                let client = try home.start().connect()
                for byte in Array("\r\n \t\n{\"id\":1,\"method\":\"agent.ping\"}\r\n".utf8) {
                    try client.send(bytes: [byte])
                }
                #expect(try client.message()["id"] == 1)
                #expect(try client.call("agent.ping") == ["pong": true])
            }
        }

        @Test("a line of 10 MB is answered with an error, and the connection stays open")
        func lineTooLong() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let client = try agent.connect()
                func sendLongLine() throws {
                    try client.send(
                        #"{"id":1,"method":"config.set","params":["a",""# + String(repeating: "x", count: 10_000_000))
                    let error = try client.message()
                    #expect(error["id"]?.isNull == true)
                    #expect(error["error"]?["data"]?["name"] == "lineTooLong")
                    #expect(try client.call("agent.ping") == ["pong": true])
                }
                try sendLongLine()
                let before = try agent.anonymousBytes()
                for _ in 1...5 { try sendLongLine() }
                let after = try agent.anonymousBytes()
                #expect(after < before + 8_000_000, "memory grew from \(before) to \(after) bytes")
            }
        }

        @Test("a line that is not JSON in UTF-8 is answered with an error, and the connection stays open")
        func parseErrors() throws {
            try AgentHome.with { home in
                let client = try home.start().connect()
                let nested = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
                let lines: [[UInt8]] = [
                    [0xFF, 0xFE, 0x00],
                    Array(#"{"id":1,"method":"agent.ping","params":[""#.utf8) + [0xC3, 0x28] + Array(#""]}"#.utf8),
                    Array(#"{"id":1,"method":"#.utf8), Array(nested.utf8), Array("{".utf8), [0x00], Array("nul".utf8),
                    Array(#"{"id":1,"method":"agent.ping","params":[""#.utf8) + [0x01] + Array(#""]}"#.utf8),
                    Array(#"{"id":1,"method":"agent.ping","params":["\ud800"]}"#.utf8),
                ]
                for line in lines {
                    try client.send(bytes: line + [UInt8(ascii: "\n")])
                    let error = try client.message()
                    #expect(error["id"]?.isNull == true)
                    #expect(error["error"]?["code"] == -32700, "\(error)")
                    #expect(try client.call("agent.ping") == ["pong": true])
                }
            }
        }

        @Test("requests with random changes get JSON replies, and neither close the connection nor stop the agent")
        func changedRequests() throws {
            var generator = SeededGenerator()
            print("seed of the changes: \(generator.seed)")
            let requests = [
                #"{"id":1,"method":"config.get","params":{"path":"known"}}"#,
                #"{"id":"a","method":"config.get","params":{"path":["known"],"maximumAgeSeconds":5}}"#,
                #"{"id":2,"method":"config.explain","params":{"path":"/known"}}"#,
                #"{"id":3,"method":"config.subscribe","params":{"path":"known","mode":"patch","since":1}}"#,
                #"{"id":4,"method":"config.unsubscribe","params":{"subscription":1}}"#,
                #"{"id":5,"method":"config.wait","params":{"path":"known","equals":"x","timeoutMilliseconds":1}}"#,
                #"{"id":6,"method":"request.cancel","params":{"id":5}}"#,
                #"{"id":7,"method":"config.acknowledge","params":{"revision":1,"accepted":false,"reason":"é"}}"#,
                #"{"id":8,"method":"image.get","params":{"url":"http://127.0.0.1:1/x","policy":"cacheOnly"}}"#,
                #"[{"id":1,"method":"agent.ping"},{"id":2,"method":"config.diff","params":{"from":1,"to":2}}]"#,
                #"{"id":9,"method":"config.history","params":{"limit":3}}"#, #"{"id":10,"method":"agent.clients"}"#,
            ].map { Array($0.utf8) }
            try AgentHome.with { home in
                let agent = try home.start()
                let observer = try agent.connect()
                try observer.call("config.set", ["path": "known", "value": "unchanged"])
                for _ in 1...20 {
                    let client = try LineClient(path: home.socket, isRecorded: false)
                    for _ in 1...100 {
                        try client.send(bytes: Self.changed(requests, &generator) + [UInt8(ascii: "\n")])
                    }
                    try client.send(#"{"id":"the last","method":"agent.ping"}"#)
                    while try client.message()["id"] != "the last" {}
                    client.close()
                }
                #expect(try observer.call("config.get", ["path": "known"])["value"] == "unchanged")
                #expect(try agent.stop() == .exit(0))
            }
        }

        /// Returns one of the requests with random changes, usually invalid.
        private static func changed(_ requests: [[UInt8]], _ generator: inout SeededGenerator) -> [UInt8] {
            let tokens = [
                "null", "-1", "1e999", "[]", "{}", #""\ud800""#, "99999999999999999999", "\0", #""..""#, "[[",
            ]
            var bytes = requests.randomElement(using: &generator) ?? []
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let place = Int.random(in: 0...bytes.count, using: &generator)
                switch Int.random(in: 0..<5, using: &generator) {
                case 0: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
                case 1: bytes.insert(contentsOf: (tokens.randomElement(using: &generator) ?? "").utf8, at: place)
                case 2: bytes.removeSubrange(place..<min(place + 8, bytes.count))
                case 3:
                    let other = requests.randomElement(using: &generator) ?? []
                    bytes.replaceSubrange(place..., with: other[Int.random(in: 0..<other.count, using: &generator)...])
                default: bytes.insert(contentsOf: bytes.prefix(place), at: place)
                }
            }
            return bytes.filter { $0 != UInt8(ascii: "\n") }
        }

        @Test("a last line without a line end is answered, even if it is not JSON")
        func unfinishedLine() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                for (text, name) in [
                    (#"{"id":1,"method":"#, "parseError"), (#"{"id":1,"method":"no"}"#, "methodNotFound"),
                ] {
                    let client = try agent.connect()
                    try client.send(bytes: Array(text.utf8))
                    client.halfClose()
                    let replies = try client.readUntilClosed()
                    #expect(replies.map { $0["error"]?["data"]?["name"]?.string } == [name])
                }
            }
        }

        @Test("numbers keep their original text, even after a restart")
        func numbers() throws {
            try AgentHome.with { home in
                let numbers = ["1e400", "-0", "12345678901234567890", "0.1000", "1E+2", "9007199254740993"]
                for round in 0..<2 {
                    let agent = try home.start()
                    let client = try agent.connect()
                    if round == 0 {
                        for (index, number) in numbers.enumerated() {
                            let params = try JSONValue(parsing: #"["n\#(index)",\#(number)]"#)
                            try client.call("config.set", params)
                        }
                    }
                    for (index, number) in numbers.enumerated() {
                        #expect(try client.call("config.get", [.string("n\(index)")])["value"]?.compactText == number)
                    }
                    #expect(try agent.stop() == .exit(0))
                }
            }
        }

        @Test("requests are answered in order, however their bytes are split into writes")
        func randomCuts() throws {
            var generator = SeededGenerator()
            print("seed of the cuts: \(generator.seed)")
            try AgentHome.with { home in
                let client = try home.start().connect()
                var bytes: [UInt8] = []
                for id in 1...2_000 {
                    bytes +=
                        Array(LineClient.text(id: id, "config.get").utf8) + Array((id % 3 == 0 ? "\r\n\n" : "\n").utf8)
                }
                var received = 0
                while !bytes.isEmpty {
                    let count = Int.random(in: 1...min(bytes.count, 700), using: &generator)
                    try client.send(bytes: Array(bytes.prefix(count)))
                    bytes.removeFirst(count)
                    for line in client.availableLines() {
                        received += 1
                        #expect(try JSONValue(parsing: line)["id"]?.int == received)
                    }
                }
                while received < 2_000 {
                    received += 1
                    #expect(try client.message()["id"]?.int == received)
                }
            }
        }
    }
}
