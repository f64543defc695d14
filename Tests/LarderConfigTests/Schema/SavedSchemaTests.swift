import ConfigTestSupport
import LarderConfigModel
import LarderJSON
import LarderPlatform
import Testing

@testable import LarderConfig

@Suite("Saved schemas", .timeLimit(.minutes(15)))
struct SavedSchemaTests {
    private let scratch: ScratchDirectory
    private let saved: SavedSchema

    init() throws {
        scratch = try ScratchDirectory()
        try scratch.makeDirectory("state")
        saved = SavedSchema(
            namespace: "default", directory: scratch.at("state"), files: LocalFileSystem(), logger: .silent)
    }

    private func file(_ name: String, enforcement: SchemaSettings.Enforcement = .reject) -> SchemaFile {
        SchemaFile(
            SchemaSettings(path: scratch.at(name), enforcement: enforcement), secrets: .none, maximumBytes: 10_000)
    }

    @Test("a saved schema is compiled with the current settings, also if they name another file")
    func otherPath() throws {
        try scratch.write(#"{"$ref": "inner.json"}"#, to: "a.json")
        try scratch.write(#"{"type": "object"}"#, to: "inner.json")
        #expect(saved.save(try file("a.json").read().schema.get()) == nil)
        for name in ["a.json", "b.json"] {
            let schema = try #require(saved.load(for: file(name, enforcement: .warn)), "\(name)")
            #expect(schema.document == ["$ref": "inner.json"])
            #expect(schema.settings.path == scratch.at("a.json"))
            #expect(schema.settings.enforcement == .warn)
        }
    }

    @Test("the schema of an earlier version is used for its path, and replaced")
    func earlierVersion() throws {
        try scratch.write(#"{"\#(scratch.at("a.json"))":{"maximum":5}}"#, to: "state/schema.json")
        #expect(saved.load(for: file("a.json"))?.document == ["maximum": 5])
        #expect(saved.load(for: file("b.json")) == nil)
        try scratch.write(#"{"maximum": 6}"#, to: "a.json")
        #expect(saved.save(try file("a.json").read().schema.get()) == nil)
        #expect(
            scratch.text("state/schema.json")
                == #"{"schema":"\#(scratch.at("a.json"))","\#(scratch.at("a.json"))":{"maximum":6}}"#)
    }

    @Test("a removed schema is not used again")
    func removal() throws {
        try scratch.write("true", to: "a.json")
        #expect(saved.save(try file("a.json").read().schema.get()) == nil)
        saved.remove()
        #expect(saved.load(for: file("a.json")) == nil)
        saved.remove()
    }
}
