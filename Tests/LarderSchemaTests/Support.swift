import LarderJSON
@testable import LarderSchema
import Testing

/// Compiles a schema from its text.
func compile(
    _ text: String, baseURI: String = "", assertsFormats: Bool? = nil,
    documents: [String: String] = [:]
) throws -> JSONSchema {
    return try JSONSchema(JSONValue(parsing: text), baseURI: baseURI, assertsFormats: assertsFormats) { uri in
        documents[uri].flatMap { try? JSONValue(parsing: $0) }
    }
}

/// The error that compiling a schema throws; nil if the schema is valid.
func schemaError(_ text: String, documents: [String: String] = [:]) throws -> SchemaError? {
    do {
        _ = try compile(text, baseURI: documents.isEmpty ? "" : "file:///schemas/main.json", documents: documents)
        return nil
    } catch let error as SchemaError {
        return error
    }
}

/// Whether a schema accepts a value, both given as text.
func accepts(_ schema: String, _ value: String) throws -> Bool {
    let (schema, value) = (try compile(schema), try JSONValue(parsing: value))
    let isValid = schema.isValid(value)
    // `isValid`, which is faster, and `explain`, which records violations, must agree.
    #expect(schema.explain(value, maxErrors: 1).isEmpty == isValid)
    return isValid
}

/// The violations of a value, each as `PATH KEYWORD-LOCATION MESSAGE`.
func violations(_ schema: String, _ value: String, maxErrors: Int = 20) throws -> [String] {
    try compile(schema).validate(JSONValue(parsing: value), maxErrors: maxErrors).map {
        "\($0.path.pointer) \($0.schemaLocation) \($0.message)"
    }
}
