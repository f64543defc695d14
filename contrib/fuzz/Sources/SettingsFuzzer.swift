import LarderJSON
@testable import LarderJSON5

/// The input is the text of a settings file or of a layer file *.json5.
///
/// JSON is a subset of JSON5. The fuzzer checks that valid JSON has the same value when it is parsed as JSON5. JSON
/// with duplicate names is an exception: the JSON5 parser rejects it.
@Sendable
func fuzzSettings(_ input: UnsafeRawBufferPointer) {
    guard let text = String(validating: input, as: UTF8.self) else { return }
    let scalars = Array(text.unicodeScalars)
    let json = (try? JSONValue(parsing: Array(input), maximumDepth: JSON5Parser.maximumDepth - 1)).map { Model($0) }
    do throws(JSON5Error) {
        let value = try JSON5Parser.parse(scalars)
        _ = value.shown
        if let json { require(plain(value, like: json).isEquivalent(to: json), "JSON has another value as JSON5") }
    } catch {
        require(
            !error.reason.isEmpty && (0...scalars.count).contains(error.offset),
            "an error without a reason or with an invalid offset")
        require(json == nil || error.code == .duplicateMember, "valid JSON was rejected as JSON5: \(error)")
    }
}

/// Converts a JSON5 value. A number gets the text of the corresponding number in `json` if the two numbers are equal.
private func plain(_ value: JSON5Value, like json: Model?) -> Model {
    switch value.content {
    case .null: return .null
    case .bool(let value): return .bool(value)
    case .number(let number, let text):
        if case .number(let other)? = json, Double(other) == number { return json! }
        return .number(text)
    case .string(let text): return .string(Array(text.utf8))
    case .array(let elements):
        guard case .array(let others)? = json, others.count == elements.count else { return .array([]) }
        return .array(zip(elements, others).map { plain($0, like: $1) })
    case .object(let members):
        return .object(
            members.map { .init(name: Array($0.name.utf8), value: plain($0.value, like: json?[Array($0.name.utf8)])) })
    }
}
