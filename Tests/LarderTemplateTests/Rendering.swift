import LarderJSON
import LarderTemplate
import Testing

/// The output of a template for a value.
func render(_ text: String, _ value: JSONValue = .emptyObject) throws(TemplateError) -> String {
    try Template(text).render(value)
}

/// The error of parsing or rendering a template.
func error(_ text: String, _ value: JSONValue = .emptyObject) -> TemplateError? {
    #expect(throws: TemplateError.self) { try render(text, value) }
}
