import LarderJSON
@testable import LarderSchema

/// The input is a schema and two values, separated by zero bytes.
///
/// Checks that `isValid` and `validate` agree, and that the metaschema accepts every schema that can be compiled. Also
/// checks that validation after a change from the first value to the second one finds the same violations as a complete
/// validation of the second value.
@Sendable
func fuzzSchema(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 3)
    guard let document = try? JSONValue(parsing: parts[0]) else { return }
    do throws(SchemaError) {
        var schema = try JSONSchema(document, assertsFormats: true)
        // These limits are below the defaults, so that one input cannot take long.
        schema.limits.steps = 20_000
        schema.limits.stepsPerValue = 20
        // A schema that names its dialect is not checked, because the dialect can give keywords another meaning.
        if document["$schema"] == nil, !usesOldKeywords(document) {
            require(metaschema.isValid(document), "the metaschema rejects the schema")
        }
        guard let value = try? JSONValue(parsing: parts[1]) else { return }
        let isValid = check(schema, value)
        _ = schema.annotations(at: .init(value.members.map(\.name)))
        guard isValid, let changed = try? JSONValue(parsing: parts[2]) else { return }
        let found = schema.validate(changed, previous: value, changedAt: JSONPath([]))
        require(found == schema.validate(changed), "the validation after a change differs")
    } catch {
        require(!error.detail.isEmpty && error.location.contains("#"), "an error without a reason or location")
    }
}

private func check(_ schema: JSONSchema, _ value: JSONValue) -> Bool {
    let isValid = schema.isValid(value)
    let violations = schema.validate(value, maxErrors: 5)
    require(violations.isEmpty == isValid, "isValid and validate disagree")
    for violation in violations {
        require(!violation.message.isEmpty && violation.schemaLocation.contains("#"), "an incomplete violation")
        require(!violation.message.contains("another value"), "a violation without a message of its own")
    }
    return isValid
}

private let metaschema = try! JSONSchema(["$ref": "https://json-schema.org/draft/2020-12/schema"])

/// Whether a schema may have keywords that only the metaschema knows, or subschemas with a dialect of their own.
private func usesOldKeywords(_ document: JSONValue) -> Bool {
    let text = document.compactText
    return ["$recursive", "\\u", "$schema", "$vocabulary", "$id"].contains { text.contains($0) }
}

/// The input is a regular expression, a zero byte and a text.
@Sendable
func fuzzPatterns(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    let text = String(decoding: parts[0], as: UTF8.self)
    do throws(PatternError) {
        let pattern = try Pattern(text)
        let outcome = search(pattern, parts[1])
        guard let group = try? Pattern("(?:\(text))") else { return }
        let other = search(group, parts[1])
        require(outcome == other || outcome == .limitReached || other == .limitReached, "a group changes the result")
    } catch {
        require(!error.reason.isEmpty, "an error without a reason")
    }
}

private func search(_ pattern: Pattern, _ bytes: [UInt8]) -> PatternMatcher.Outcome {
    var matcher = PatternMatcher()
    var text = String(decoding: bytes, as: UTF8.self)
    return text.withUTF8 { matcher.search($0, for: pattern) }
}
