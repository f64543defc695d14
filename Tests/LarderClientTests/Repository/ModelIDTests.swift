import FoundationEssentials
import LarderClient
import LarderTesting
import Testing

@Suite("Ids of models", .timeLimit(.minutes(15)))
struct ModelIDTests {
    private struct Part: Codable, Identifiable, Equatable, Sendable {
        var id: UUID
        var name: String
    }

    @Test("a model whose id is a UUID is saved under its text and loaded by its id")
    func uuid() async throws {
        let client = try await TestAgent().client()
        let part = Part(id: UUID(), name: "disk")
        try await LarderRepository(client.config, at: "parts", of: Part.self).save(part)
        #expect(try await LarderRepository(client.config, at: "parts", of: Part.self).load(part.id) == part)
        let parts = try await client.config.snapshot(at: "parts").value
        #expect(parts?[part.id.uuidString]?["name"] == "disk")
    }
}
