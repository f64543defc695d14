import Foundation
import LarderConfig
import LarderJSON
import LarderProtocol
import Testing

@testable import LarderConfigModel
@testable import LarderServer

@Suite("Conflicts")
struct ConflictTests {
    @Test(
        "for a peer without the right `secrets`, the conflict for a secret or a value with a secret has no value",
        arguments: [["db", "password"], ["db"], []])
    func masked(path: [String]) async throws {
        let context = try await ConnectionFixture.serverContext([NamespaceConfiguration(name: "default")])
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let namespace = try #require(context.namespaces["default"])
        _ = try await namespace.store.set(
            JSONPath([]), to: ["db": ["password": "hunter1", "host": "a"]], timeToLive: nil)
        let error = ConfigError(conflictAt: path, "there is another value")
        let publication = namespace.publication
        let secrets = try SecretPatterns(["db.password"])

        let hidden = WireError(error, of: publication, ValueVisibility(mayRead: true, secrets: secrets))
        let text = JSONValue.building { hidden.write(to: &$0) }.compactText
        #expect(text.contains(#""masked":true"#) && !text.contains("hunter1") && !text.contains(#""value""#))
        #expect(WireError(from: try JSONValue(parsing: text)).conflict == hidden.conflict)

        let shown = WireError(error, of: publication, ValueVisibility(mayRead: true, secrets: .none)).conflict
        let value = publication.current.snapshot.value.value(at: JSONPath(path))
        #expect(shown?.isMasked == false && shown?.value == value)
        let unreadable = WireError(error, of: publication, ValueVisibility(mayRead: false, secrets: secrets)).conflict
        #expect(unreadable?.isMasked == false && unreadable?.value == nil)
        let other = ConfigError(conflictAt: ["db", "host"], "there is another value")
        let conflict = WireError(other, of: publication, ValueVisibility(mayRead: true, secrets: secrets)).conflict
        #expect(conflict?.isMasked == false && conflict?.value == "a")
        await context.namespaces.stop()
    }
}
