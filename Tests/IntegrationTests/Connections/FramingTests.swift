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
