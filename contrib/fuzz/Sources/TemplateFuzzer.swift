import LarderJSON
import LarderTemplate

/// A template, a zero byte and JSON. Text without tags comes out as it is; whatever comes out does so each time.
@Sendable
func fuzzTemplate(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    let text = String(decoding: parts[0], as: UTF8.self)
    let value = (try? JSONValue(parsing: parts[1])) ?? .emptyObject
    // By bytes: a brace with an accent is another character.
    let hasTags = zip(text.utf8, text.utf8.dropFirst()).contains { $0 == UInt8(ascii: "{") && $1 == UInt8(ascii: "{") }
    do throws(TemplateError) {
        let template = try Template(text)
        let rendered = try template.render(value)
        require(try! Template(text).render(value).utf8.elementsEqual(rendered.utf8), "it renders as something else")
        if !hasTags { require(rendered.utf8.elementsEqual(text.utf8), "text without tags is changed") }
    } catch {
        require(!error.description.isEmpty, "an error without a reason")
        require(hasTags, "text without tags has an error: \(error)")
    }
}
