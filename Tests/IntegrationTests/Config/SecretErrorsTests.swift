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
                #expect(!(try agent.status().compactText).contains(Self.secret))
                #expect(!agent.log.contains(Self.secret))
            }
        }
    }
}
