import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Errors and secrets")
    struct SecretErrorsTests {
        private static let secret = "hunter2-is-no-password"
        private static let long: JSONValue = .string(String(repeating: secret, count: 3))
        private static let settings = """
            { socket: { mode: '0666' }, access: { users: { "4711": ['read', 'write', 'push'] } },
              namespaces: { default: { secrets: ['db.password'], schema: { path: '@/schema.json' } } } }
            """
        private static let schema = #"{"properties":{"db":{"properties":{"password":{"maxLength":40}}}}}"#

        /// Requests that fail, and the names of their errors. Some carry the secret, and others concern its path.
        private static let requests: [(method: String, params: JSONValue, error: String)] = [
            ("config.set", ["path": "db.password", "value": "x", "ifAbsent": true], "conflict"),
            ("config.set", ["path": "db", "value": [:], "ifValue": "y"], "conflict"),
            ("config.unset", ["path": "db.password", "ifValue": "y"], "conflict"),
            ("config.apply", ["changes": [["op": "test", "path": "db.password", "ifAbsent": true]]], "conflict"),
            ("config.set", ["path": "db.password", "value": long], "schemaViolation"),
            ("config.apply", ["changes": [["op": "set", "path": "db.password", "value": long]]], "schemaViolation"),
            ("config.push", ["document": ["db": ["password": long]]], "schemaViolation"),
            ("config.set", ["path": "db.password", "value": long, "pth": long], "invalidParams"),
            ("config.set", ["path": 7, "value": long], "invalidParams"),
            ("config.set", ["path": "a", "value": long, "ttlMilliseconds": -1], "invalidParams"),
            ("config.push", ["document": long], "invalidParams"),
            ("config.none", ["value": long], "methodNotFound"),
            ("config.set", ["namespace": "none", "path": "a", "value": long], "unknownNamespace"),
            ("config.get", ["path": "db.password.none"], "notFound"),
            ("config.rollback", ["revision": 1], "denied"),
        ]

        @Test("no error, log line or status shows a secret to a user without the right `secrets`", .needsRoot)
        func errors() throws {
            try AgentHome.with(settings: Self.settings) { home in
                try home.write("schema.json", Self.schema)
                let agent = try home.start(logLevel: "trace")
                try agent.call("config.set", ["path": "db.password", "value": .string(Self.secret)])
                let client = try OtherUser.connect(4711, to: agent, home)
                for (method, params, name) in Self.requests {
                    _ = try client.request(method, params)
                    let reply = String(decoding: try #require(try client.line()), as: UTF8.self)
                    let refusal = try #require(throws: LineClient.Refusal.self) {
                        try LineClient.result(of: JSONValue(parsing: reply))
                    }
                    #expect(refusal.name == name, "\(method) \(params): \(reply)")
                    #expect(!reply.contains(Self.secret), "\(method) \(params): \(reply)")
                }
                try client.send("{\"id\":1,\"method\":\"config.set\",\"params\":{\"value\":\"\(Self.secret)\"")
                let reply = try client.line().map { String(decoding: $0, as: UTF8.self) }
                #expect(reply?.contains(Self.secret) == false)

                // Messages that are not valid requests. The last one is longer than limits.lineBytes.
                let lines: [(line: String, error: String)] = [
                    (#"{"id":2,"method":"config.set","params":"\#(Self.secret)"}"#, "invalidRequest"),
                    (#"{"id":"\#(Self.secret)","id":2,"method":"config.get"}"#, "invalidRequest"),
                    (#"{"id":2,"value":"\#(Self.secret)"}"#, "invalidRequest"),
                    (#"{"id":2,"value":"\#(String(repeating: Self.secret, count: 1 << 16))"}"#, "lineTooLong"),
                ]
                for (line, name) in lines {
                    try client.send(line)
                    let reply = try client.message()
                    #expect(reply["error"]?["data"]?["name"]?.string == name, "\(reply)")
                    #expect(!reply.compactText.contains(Self.secret), "\(reply)")
                }
                let waiting = try client.request("config.wait", ["path": "a", "equals": .string(Self.secret)])
                #expect(try client.call("request.cancel", ["id": .int(waiting)])["cancelled"] == true)
                let cancelled = #expect(throws: LineClient.Refusal.self) { try client.reply(to: waiting) }
                #expect(cancelled?.name == "cancelled")
                #expect(cancelled?.detail.contains(Self.secret) == false)
                #expect(!(try agent.status().compactText).contains(Self.secret))
                #expect(!agent.log.contains(Self.secret))
            }
        }

        // MARK: Sources, files, images and limits

        /// The beginning of the secret, because a message could contain a part of it.
        private static let mark = "hunter2"

        /// Responses of sources to which a refresh replies with an error, and its name.
        private static let responses: [(answer: RawOrigin.Answer, error: String)] = [
            (.status("500 \(secret)", #"{"error":"\#(secret)"}"#), "upstreamFailed"),
            (
                .text("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"db\":\"\(secret)", thenClose: true),
                "upstreamFailed"
            ),
            (.text("\(secret)\r\n\r\n", thenClose: true), "upstreamFailed"),
            (.document(#"{"db":{"password":"\#(secret)"}"#), "rejected"),
            (.document(#"{"db":{"password":\#(secret)}}"#), "rejected"),
            (.document(#"["\#(secret)"]"#), "rejected"),
            (.document(#"{"db":{"password":\#(long.compactText)}}"#), "schemaViolation"),
        ]

        /// Responses of origins of images, and the names of the errors.
        private static let pictures: [(answer: RawOrigin.Answer, error: String)] = [
            (.status("404 \(secret)", secret), "notFound"),
            (.status("200 OK", "<!DOCTYPE html><title>\(secret)</title>"), "imageRejected"),
            (.status("200 OK", "", fields: ["X-Secret: \(secret)"]), "upstreamFailed"),
            (.status("302 Found", "", fields: ["Location: file:///?\(secret)"]), "upstreamFailed"),
            (.status("302 Found", "", fields: ["Location: http://10.0.0.1/?\(secret)"]), "forbiddenAddress"),
        ]

        /// Settings with a namespace for each source, one with invalid files and one with files of any content.
        private static func settings(_ origin: RawOrigin) -> String {
            let rules = "secrets: ['db.password'], schema: { path: '@/schema.json' }"
            let sources = responses.indices.map { number in
                "s\(number): { \(rules), remote: { http: { url: '\(origin.url)s\(number)', intervalSeconds: 86400 } } }"
            }
            return """
                { socket: { mode: '0666' }, access: { users: { "4711": ['read', 'write', 'push', 'images'] } },
                  limits: { subscriptionsPerConnection: 1 },
                  images: { allowNetworks: ['127.0.0.1/32'], minimumFreeBytes: 0, maximumBytes: 65536, maximumImageBytes: 65536 },
                  namespaces: { default: { \(rules) },
                    invalid: {
                      secrets: ['db.password'], schema: { path: '@/required.json' }, host: { directory: '@/invalid.d' },
                    },
                    files: { \(rules), host: { directory: '@/files.d' } },
                    \(sources.joined(separator: ", ")) } }
                """
        }

        /// Sends a request. Returns the name of its error, and the whole reply.
        private func refusal(
            _ client: LineClient, _ method: String, _ params: JSONValue
        ) throws -> (name: String?, reply: String) {
            let id = try client.request(method, params)
            while true {
                let reply = try client.message()
                if reply["id"] == .int(id) {
                    return (reply["error"]?["data"]?["name"]?.string, reply.compactText)
                }
            }
        }

        /// Sends a request on each connection, and expects an error with this name and without the secret.
        private func expect(_ name: String, _ method: String, _ params: JSONValue, _ clients: [LineClient]) throws {
            for client in clients {
                let refused = try refusal(client, method, params)
                #expect(refused.name == name, "\(method) \(params): \(refused.reply)")
                #expect(!refused.reply.contains(Self.mark), "\(method) \(params): \(refused.reply)")
            }
        }

        @Test(
            "no error of a source, file, image or limit, no log line and no status shows a value, to any user",
            .needsRoot)
        func otherErrors() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            for (number, response) in Self.responses.enumerated() { origin.answer(response.answer, to: "/s\(number)") }
            for (number, picture) in Self.pictures.enumerated() {
                origin.answer(picture.answer, to: "/p\(number)?\(Self.secret)")
            }
            // Nothing listens on this port.
            let silent = try RawOrigin()
            defer { silent.stop() }
            try AgentHome.with(settings: Self.settings(origin)) { home in
                try home.write("schema.json", Self.schema)
                // Without the file that is refused, the required member is missing, so nothing can be published.
                try home.write("required.json", #"{"required":["db"],"# + Self.schema.dropFirst())
                for name in ["invalid.d", "files.d"] { try home.makeDirectory(name) }
                try home.write("invalid.d/1.json", #"{"db":{"password":\#(Self.long.compactText)}}"#)
                let agent = try home.start(logLevel: "trace")
                let user = try OtherUser.connect(4711, to: agent, home)
                let administrator = try agent.connect()
                let both = [user, administrator]
                for (number, response) in Self.responses.enumerated() {
                    try expect(response.error, "config.refresh", ["namespace": .string("s\(number)")], both)
                    try expect("unavailable", "config.get", ["namespace": .string("s\(number)")], both)
                }
                try expect("unavailable", "config.get", ["namespace": "invalid", "path": "db.password"], both)
                for (name, text) in [
                    ("1.json", #"{"db":{"password":\#(Self.secret)}}"#), ("1.json", "\"\(Self.secret)\""),
                    ("1.json5", "{db:{password:\(Self.secret)}}"), ("1.json5", "{'\(Self.secret)' 1}"),
                    ("1.json5", "{db:1,db:{password:'\(Self.secret)'},a:'\(Self.secret)}"),
                ] {
                    try home.write("files.d/\(name)", text)
                    try expect("rejected", "config.refresh", ["namespace": "files"], both)
                    unlink("\(home.directory)/files.d/\(name)")
                }
                for client in both {
                    try client.call("config.subscribe", ["path": "a"])
                    try expect("limitExceeded", "config.subscribe", ["path": .string(Self.secret)], [client])
                }

                for (number, picture) in Self.pictures.enumerated() {
                    let url = JSONValue.string("\(origin.url)p\(number)?\(Self.secret)")
                    try expect(picture.error, "image.get", ["url": url], both)
                    try expect("notFound", "image.get", ["url": url, "policy": "cacheOnly"], both)
                }
                let unreachable = JSONValue.string("\(silent.url)?\(Self.secret)")
                try expect("offline", "image.get", ["url": unreachable], both)
                let url = JSONValue.string("http://image.example/?\(Self.secret)")
                let data = Data(TestImage(seed: 1, size: 50_000).bytes).base64EncodedString()
                try administrator.call("image.put", ["url": url, "data": .string(data)])
                try expect("cacheFull", "image.pin", ["url": url], [administrator])
                try expect("imageRejected", "image.put", ["url": url, "data": "aHVudGVyMg=="], both)

                for name in (0..<Self.responses.count).map({ "s\($0)" }) + ["default", "invalid", "files"] {
                    let status = try agent.status(name).compactText
                    #expect(!status.contains(Self.mark), "\(status)")
                }
                #expect(!agent.log.contains(Self.mark), "\(agent.log)")
            }
        }

        // MARK: The disk, deadlines and a stop

        @Test("no error of a full disk, a deadline or a stop, no log line and no status shows a value", .needsRoot)
        func disturbances() throws {
            let origin = try RawOrigin.listening(.hang)
            defer { origin.stop() }
            let settings = """
                { socket: { mode: '0666' }, access: { users: { "4711": ['read', 'write', 'push', 'images'] } },
                  limits: { requestsInFlightPerConnection: 1 },
                  images: { allowNetworks: ['127.0.0.1/32'], minimumFreeBytes: 0 },
                  namespaces: { default: { secrets: ['db.password'] } } }
                """
            try AgentHome.with(settings: settings) { home in
                // Writes beyond 290,000 bytes of a file fail, as in DurabilityTests.
                let agent = try home.start(wrapper: ["env", "--ignore-signal=XFSZ"], logLevel: "trace")
                let limited = try Command.run("prlimit", ["--pid", "\(agent.pid)", "--fsize=290000"])
                #expect(limited.end == .exit(0), "\(limited.log)")
                let (user, administrator) = try (OtherUser.connect(4711, to: agent, home), agent.connect())
                let both = [user, administrator]

                let large = JSONValue.string(String(repeating: Self.secret, count: 15_000))
                let changes: JSONValue = [["op": "set", "path": "db.password", "value": large]]
                try expect("storageFailed", "config.set", ["path": "db.password", "value": large], both)
                try expect("storageFailed", "config.apply", ["changes": changes], both)
                let picture = JSONValue.string(Data(TestImage(seed: 1, size: 400_000).bytes).base64EncodedString())
                let put: JSONValue = ["url": .string("http://image.example/?\(Self.secret)"), "data": picture]
                try expect("storageFailed", "image.put", put, both)

                let wait: JSONValue = ["path": "a", "equals": .string(Self.secret)]
                let url: JSONValue = ["url": .string("\(origin.url)?\(Self.secret)")]
                try expect("timeout", "config.wait", MergePatch.apply(["timeoutMilliseconds": 1], to: wait), both)
                try expect("timeout", "image.get", MergePatch.apply(["deadlineMilliseconds": 1], to: url), both)
                let status = try agent.status().compactText
                #expect(!status.contains(Self.mark), "\(status)")

                // The second request of a batch starts after the first has ended.
                let batch = [
                    LineClient.text(id: 1, "config.wait", wait),
                    LineClient.text(id: 2, "config.set", ["path": "db.password", "value": .string(Self.secret)]),
                ]
                for client in both { try client.send("[" + batch.joined(separator: ",") + "]") }
                let (downloader, observer) = try (agent.connect(), agent.connect())
                _ = try downloader.request("image.get", url)
                // The fourth request in flight is agent.stats itself.
                try observer.call("agent.stats", until: { $0["requests"]?["inFlight"] == 4 })
                agent.terminate()
                for (client, count) in [(user, 2), (administrator, 2), (downloader, 1)] {
                    let message = try client.message()
                    let replies = count == 1 ? [message] : Array(message.elements)
                    let names = replies.map { $0["error"]?["data"]?["name"]?.string }
                    #expect(names == Array(repeating: "shuttingDown", count: count), "\(message)")
                    #expect(!message.compactText.contains(Self.mark), "\(message)")
                }
                #expect(try agent.process.waitForEnd() == .exit(0), "\(agent.log)")
                #expect(!agent.log.contains(Self.mark), "\(agent.log)")
            }
        }
    }
}
