import ConfigTestSupport
import LarderConfigModel
import Testing

@testable import LarderConfigSources
@testable import LarderConfig

@Suite("Examination of schemas", .timeLimit(.minutes(15)))
struct SchemaExaminationTests {
    private let scratch: ScratchDirectory

    init() throws {
        scratch = try ScratchDirectory()
        try scratch.makeDirectory("config.d")
    }

    /// Examines the files `defaults.json` (if it exists) and `config.d` with the schema `schema.json`.
    private func examine(
        _ schema: String? = nil, remote: RemoteSourceSettings? = nil,
        enforcement: SchemaSettings.Enforcement = .reject, secrets: SecretPatterns = .none
    ) throws -> [SchemaFinding] {
        if let schema { try scratch.write(schema, to: "schema.json") }
        let configuration = NamespaceConfiguration(
            name: "default", defaultsPath: scratch.exists("defaults.json") ? scratch.at("defaults.json") : nil,
            hostDirectory: scratch.at("config.d"), remote: remote, secrets: secrets,
            schema: SchemaSettings(path: scratch.at("schema.json"), enforcement: enforcement))
        return configuration.examineSchema()
    }

    private static let http = RemoteSourceSettings.http(HTTPSourceSettings(url: "http://127.0.0.1/config.json"))

    @Test("a schema that is missing, not JSON or not a schema is an error that names the file")
    func unusable() throws {
        let missing = try examine()
        #expect(missing.map(\.kind) == [.error])
        #expect(missing.first?.text.hasPrefix(scratch.at("schema.json") + ": ") == true)
        #expect(missing.first?.text.contains("named in") == false, "the place in the settings is not known")
        #expect(try examine("{ bad").first?.text.hasPrefix(scratch.at("schema.json") + ":1:3: ") == true)
        #expect(try examine(#"{"type": "color"}"#).map(\.kind) == [.error])
        #expect(try examine(#"{"$ref": "none.json"}"#).first?.text.contains("none.json") == true)
        #expect(try examine("{}") == [])
    }

    @Test("if a schema cannot be read, the error has its place in the settings, which no comparison considers")
    func place() throws {
        var settings = SchemaSettings(path: scratch.at("schema.json"))
        let unplaced = settings
        settings.place = "/etc/larder/larder.json:3"
        #expect(settings == unplaced)
        func text() -> String? {
            NamespaceConfiguration(name: "default", schema: settings).examineSchema().first?.text
        }
        let suffix = " (named in /etc/larder/larder.json:3)"
        #expect(text()?.hasSuffix(suffix) == true)
        try scratch.makeDirectory("schema.json")
        #expect(text()?.hasSuffix(suffix) == true)
        try scratch.remove("schema.json")
        try scratch.write("{ bad", to: "schema.json")
        #expect(text()?.contains("named in") == false, "the error has the line in the schema")
    }

    @Test("a value that the schema rejects is reported with its file and line, and without a secret")
    func rejectedValue() throws {
        let schema = #"{"properties": {"limit": {"type": "integer"}}}"#
        try scratch.write("{}", to: "config.d/10.json")
        try scratch.write("{\n  limit: 'many',\n}", to: "config.d/20.json5")
        for remote in [nil, Self.http] {
            let findings = try examine(schema, remote: remote)
            #expect(findings.map(\.kind) == [.error])
            #expect(
                findings.first?.text.hasPrefix(scratch.at("config.d/20.json5") + ":2: limit: ") == true, "\(findings)")
            #expect(findings.first?.text.contains("many") == false)
        }
        #expect(try examine(schema, enforcement: .warn).map(\.kind) == [.warning])
        try scratch.write(#"{"limit": 5}"#, to: "config.d/30.json")
        #expect(try examine(schema) == [], "a later file takes precedence")
    }

    @Test("the layers are validated together")
    func layers() throws {
        let schema = #"{"required": ["a", "b"], "properties": {"a": {"maximum": 5}}}"#
        try scratch.write(#"{"a": 9}"#, to: "defaults.json")
        try scratch.write(#"{"b": 1}"#, to: "config.d/10.json")
        let findings = try examine(schema)
        #expect(findings.map(\.kind) == [.error])
        #expect(findings.first?.text.hasPrefix(scratch.at("defaults.json") + ":1: a: ") == true, "\(findings)")
        try scratch.write(#"{"a": 2, "b": 1}"#, to: "config.d/10.json")
        #expect(try examine(schema) == [])
    }

    @Test("a missing member is a warning, because an override can add it, and not reported if a source can")
    func missingMembers() throws {
        let schema = #"{"required": ["a", "b"]}"#
        try scratch.write(#"{"a": 1}"#, to: "config.d/10.json")
        #expect(try examine(schema).map(\.kind) == [.warning])
        #expect(try examine(schema, remote: Self.http) == [])
        // The document of a file is known.
        let file = RemoteSourceSettings.file(FileSourceSettings(path: scratch.at("remote.json")))
        try scratch.write(#"{"b": 1}"#, to: "remote.json")
        #expect(try examine(schema, remote: file) == [])
        try scratch.write(#"{"c": 1}"#, to: "remote.json")
        #expect(try examine(schema, remote: file).map(\.kind) == [.warning])
    }

    @Test("if a file of a layer cannot be read, only the schema is examined")
    func unreadableLayer() throws {
        try scratch.write("{ bad", to: "config.d/10.json")
        #expect(try examine(#"{"required": ["a"]}"#) == [])
        #expect(try examine("{ bad").map(\.kind) == [.error])
    }

    @Test("without files, a schema that requires members is valid")
    func noFiles() throws {
        #expect(try examine(#"{"required": ["a"]}"#).allSatisfy { $0.kind == .warning })
    }
}
