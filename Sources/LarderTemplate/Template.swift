package import LarderJSON

/// A text with tags that a configuration fills in: Mustache, as its manual and specification say, with three differences.
/// Nothing is escaped unless the template asks for it, because what comes out are configuration files and not web pages;
/// a name that leads nowhere is an error unless it ends with a question mark; and there are functions.
///
/// Templates neither include nor inherit from one another, and compute nothing. Reading one takes time in proportion to
/// its length, rendering in proportion to what is read and written; neither recurses.
package struct Template: Sendable {
    /// How deep sections may lie within one another.
    package static let greatestDepth = 100

    let source: [UInt8]
    let instructions: [Instruction]

    /// Reads a template.
    /// - Throws: ``TemplateError`` (`syntax` or `function`) with the place of what is wrong.
    package init(_ text: String) throws(TemplateError) {
        source = Array(text.utf8)
        instructions = try TemplateParser.instructions(of: source)
    }

    /// Fills in a value.
    /// - Throws: ``TemplateError``: `missing` with everything that the template asks for and is not there, `function`
    ///   with the place of the first function that cannot take what it was given.
    package func render(_ value: JSONValue) throws(TemplateError) -> String {
        var renderer = Renderer(template: self, root: value)
        return try renderer.text()
    }
}

/// What a template consists of, in the order of the text.
enum Instruction: Sendable {
    /// Bytes of the template that are printed as they are.
    case text(Range<Int>)
    /// A value is printed.
    case value(Reference, isEscaped: Bool)
    /// A section begins; `close` is the index of its end.
    case open(Reference, isInverted: Bool, close: Int)
    /// A section ends; `open` is the index of its beginning.
    case close(open: Int)
}
