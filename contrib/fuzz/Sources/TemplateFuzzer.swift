import LarderJSON
import LarderTemplate

/// The input is a template, a zero byte and JSON. Checks that a template without tags is rendered unchanged, and that
/// rendering it again gives the same text.
@Sendable
func fuzzTemplate(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    let text = String(decoding: parts[0], as: UTF8.self)
    let value = (try? JSONValue(parsing: parts[1])) ?? .emptyObject
    // Compare bytes, because a brace with a combining accent is another Character.
    let hasTags = zip(text.utf8, text.utf8.dropFirst()).contains { $0 == UInt8(ascii: "{") && $1 == UInt8(ascii: "{") }
    do throws(TemplateError) {
        let template = try Template(text)
        let rendered = try template.render(value)
        require(
            try! Template(text).render(value).utf8.elementsEqual(rendered.utf8), "rendering again gives another text")
        if !hasTags { require(rendered.utf8.elementsEqual(text.utf8), "text without tags was changed") }
    } catch {
        require(!error.description.isEmpty, "an error without a reason")
        require(hasTags, "text without tags has an error: \(error)")
    }
}
