import LarderClient
import LarderJSON
import LarderProtocol
import Testing

@Suite("Conflicts that hide a secret", .timeLimit(.minutes(15)))
struct MaskedConflictTests {
    private struct Login: Codable, Identifiable, Equatable, Sendable {
        var id: String
        var password: String
    }

    private static let stored: JSONValue = ["id": "a", "password": "new"]

    private static func conflict(at path: String) throws -> WireError {
        let path = try JSONPath(parsing: path)
        return WireError(
            WireError.Conflict(revision: 7, epoch: "e1", path: path, isMasked: true), "there is another value")
    }

    private static func value(_ value: JSONValue) -> JSONValue {
        ["namespace": "default", "revision": 7, "epoch": "e1", "state": "fresh", "value": value]
    }

    private static let changed: JSONValue = ["namespace": "default", "revision": 8, "epoch": "e1", "changed": true]

    @Test("`update` reads the value again, and applies the change to what it read")
    func update() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            async let updated = client.config.update(at: "logins.a", as: Login.self) { $0.password += "!" }
            let connection = try await agent.accept()
            try await connection.reply(
                connection.request("config.get"), Self.value(["id": "a", "password": "old"]))
            try await connection.fail(connection.request("config.apply"), Self.conflict(at: "logins.a"))
            try await connection.reply(connection.request("config.get"), Self.value(Self.stored))
            let request = try await connection.request("config.apply")
            #expect(request.params?["changes"]?.elements.map(\.self).last?["ifValue"] == Self.stored)
            try await connection.reply(request, Self.changed)
            #expect(try await updated == Login(id: "a", password: "new!"))
        }
    }

    @Test("a repository reads the model after the conflict, so that it is loaded and saved next time")
    func repository() async throws {
        try await ScriptedAgent.with { agent in
            let repository = LarderRepository(agent.client().config, at: "logins", of: Login.self)
            let login = Login(id: "a", password: "mine")
            async let first: Void = repository.save(login)
            let connection = try await agent.accept()
            try await connection.fail(connection.request("config.apply"), Self.conflict(at: "logins.a"))
            try await connection.reply(connection.request("config.get"), Self.value(Self.stored))
            do {
                try await first
                Issue.record("the save succeeded")
            } catch let error as LarderClientError {
                #expect(error.remoteError?.code == .conflict && error.remoteError?.conflict?.value == nil)
            }
            async let second: Void = repository.save(login)
            let request = try await connection.request("config.apply")
            #expect(request.params?["changes"]?.elements.map(\.self).last?["ifValue"] == Self.stored)
            try await connection.reply(request, Self.changed)
            try await second
        }
    }
}
