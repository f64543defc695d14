import Foundation
import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("What was, told to others")
struct HistoryMethodsTests {
    @Test("a difference shows no secrets to those who have no right to them, but that they differ")
    func secrets() async throws {
        let context = try await ConnectionFixture.serverContext(
            [NamespaceConfiguration(name: "default", secrets: try SecretPatterns(["db.password", "*.token"]))])
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let store = try #require(context.namespaces["default"]).store
        let path = JSONPath([])
        let from = try await store.set(path, to: ["db": ["password": "hunter1", "host": "a"]], timeToLive: nil).revision
        _ = try await store.set(
            path, to: ["db": ["password": "hunter2", "host": "b"], "api": ["token": "hunter3", "url": "u"]],
            timeToLive: nil)

        guard case .deferred(let body, _)? = MethodTable.agent["config.diff"] else { throw NoSuchMethod() }
        // The credentials of nobody, which is neither root nor whoever runs the tests.
        let peer = PeerCredentials(descriptor: -1)
        try #require(!peer.isTrusted)
        var rules = AccessRules()
        rules.general.others = Rights([.read])
        let scope = RequestScope(
            context: context, connections: ConnectionRegistry(), peer: peer,
            rights: PeerRights(of: peer, by: rules, version: 0),
            taskExecutor: nil)
        let result = try await body(scope, ["from": .int(from)]).run()
        let difference = try #require(result as? ConfigDiff.Result)
        #expect(difference.isMasked)
        #expect(
            difference.patch == [
                "db": ["password": "<masked>", "host": "b"], "api": ["token": "<masked>", "url": "u"],
            ])
        let password = difference.changes.first { $0.path == ["db", "password"] }
        #expect(
            password
                == ConfigDiff.Change(
                    path: ["db", "password"], kind: .changed, old: "<masked>", new: "<masked>"))
        let text = JSONValue.building { difference.write(to: &$0) }.compactText
        #expect(!text.contains("hunter"))
        await context.namespaces.stop()
    }

    private struct NoSuchMethod: Error {}
}
