import ConfigTestSupport
import LarderConfigModel
import LarderJSON
import Testing

@testable import LarderConfig

@Suite("Schema files", .timeLimit(.minutes(15)))
struct SchemaFileTests {
    private let scratch: ScratchDirectory

    init() throws {
        scratch = try ScratchDirectory()
    }

    private func read() -> Result<NamespaceSchema, SchemaFileError> {
        SchemaFile(SchemaSettings(path: scratch.at("schema.json")), secrets: .none, maximumBytes: 10_000).read().schema
    }

    private func message() -> String? {
        guard case .failure(let error) = read() else { return nil }
        return error.description
    }

    @Test("a Boolean is a schema")
    func boolean() throws {
        try scratch.write("true", to: "schema.json")
        #expect(try read().get().document == true)
    }

    @Test(
        "a schema of another type is reported as such",
        arguments: [("[1]", "an array"), ("\"x\"", "a string"), ("null", "null"), ("7", "a number")])
    func otherTypes(text: String, type: String) throws {
        try scratch.write(text, to: "schema.json")
        #expect(message() == scratch.at("schema.json") + "#: a schema must be an object or a boolean, not \(type)")
    }

    @Test("an error in the schema follows the path of the file; one in another document names that document, too")
    func location() throws {
        try scratch.write(#"{"properties":{"v":{"type":"strin"}}}"#, to: "schema.json")
        #expect(message()?.hasPrefix(scratch.at("schema.json") + "#/properties/v/type: ") == true)
        try scratch.write(#"{"properties":{"v":{"$ref":"inner.json"}}}"#, to: "schema.json")
        try scratch.write(#"{"type":"strin"}"#, to: "inner.json")
        let prefix = scratch.at("schema.json") + ": file://" + scratch.at("inner.json") + "#/type: "
        #expect(message()?.hasPrefix(prefix) == true, "\(message() ?? "no error")")
    }

    @Test("a reference follows no symbolic link out of the directory of the schema")
    func link() throws {
        let outside = try ScratchDirectory()
        try outside.write("true", to: "other.json")
        try scratch.write(#"{"properties":{"v":{"$ref":"other.json"}}}"#, to: "schema.json")
        try scratch.link("other.json", to: outside.at("other.json"))
        let text = message()
        #expect(
            text?.contains("other.json leads out of \(scratch.path) by a symbolic link; copy the file") == true,
            "\(text ?? "no error")")
        // A link within the directory is followed.
        try scratch.remove("other.json")
        try scratch.write("true", to: "target.json")
        try scratch.link("other.json", to: "target.json")
        #expect(message() == nil)
    }
}
