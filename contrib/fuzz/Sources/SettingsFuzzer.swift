import LarderJSON
@testable import LarderJSON5

/// The text of a settings file, or of a layer file *.json5. All JSON is JSON5: what is the one, without a name twice and not too deep, says the same as
/// the other.
@Sendable
func fuzzSettings(_ input: UnsafeRawBufferPointer) {
    guard let text = String(validating: input, as: UTF8.self) else { return }
    let scalars = Array(text.unicodeScalars)
    let json = (try? JSONValue(parsing: Array(input), maximumDepth: JSON5Parser.maximumDepth - 1)).map { PlainJSON($0) }
    do throws(JSON5Error) {
        let value = try JSON5Parser.parse(scalars)
        _ = value.shown
        if let json { require(plain(value, like: json) == json, "JSON says something else as JSON5") }
    } catch {
        require(
            !error.reason.isEmpty && (0...scalars.count).contains(error.offset), "an error without a place")
        require(json == nil || error.code == .duplicateMember, "JSON is no JSON5: \(error)")
    }
}

/// Numbers with the text that JSON has for them, if the value is the same.
private func plain(_ value: JSON5Value, like json: PlainJSON?) -> PlainJSON {
    switch value.content {
    case .null: return .null
    case .bool(let value): return .bool(value)
    case .number(let number, let text):
        if case .number(let bytes)? = json, Double(String(decoding: bytes, as: UTF8.self)) == number { return json! }
        return .number(Array(text.utf8))
    case .string(let text): return .string(Array(text.utf8))
    case .array(let elements):
        guard case .array(let others)? = json, others.count == elements.count else { return .array([]) }
        return .array(zip(elements, others).map { plain($0, like: $1) })
    case .object(let members):
        return .object(
            members.map { .init(name: Array($0.name.utf8), value: plain($0.value, like: json?[Array($0.name.utf8)])) })
    }
}
