import LarderJSON
import LarderTemplate
import Testing

/// What a template makes of a value.
func render(_ text: String, _ value: JSONValue = .emptyObject) throws(TemplateError) -> String {
    try Template(text).render(value)
}

/// Why a template cannot be read or rendered.
func error(_ text: String, _ value: JSONValue = .emptyObject) -> TemplateError? {
    #expect(throws: TemplateError.self) { try render(text, value) }
}
