import Foundation
import LarderConfigModel
import LarderJSON
@testable import LarderConfig
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("History methods")
struct HistoryMethodsTests {
    @Test("for a peer without the right `secrets`, a difference masks secret values but lists their changes")
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

        // Credentials of neither root nor the user who runs the tests.
        let peer = PeerCredentials(descriptor: -1)
        try #require(!peer.isTrusted)
        var rules = AccessRules()
        rules.general.others = Rights([.read])
        let request = RequestContext(
            server: context, connections: ConnectionRegistry(), peer: peer,
            rights: PeerRights(of: peer, by: rules, version: 0))
        let namespace = try #require(context.namespaces["default"])
        let difference = try await namespace.diff(
            ConfigDiff.Parameters(from: from),
            ValueVisibility(mayRead: true, secrets: request.secrets(of: namespace)))
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
}
