package import LarderJSON

/// A Mustache template that is filled in with a configuration.
///
/// It follows the Mustache manual and specification, with three differences. Values are escaped only if the template
/// requests it, because the output is a configuration file and not a web page. A name without a value is an error
/// unless the name ends with a question mark. A tag can call a function (``Function``).
///
/// Partials, inheritance and lambdas are not supported. Parsing takes time proportional to the length of the template,
/// rendering takes time proportional to the input and output. Neither parsing nor rendering recurses.
package struct Template: Sendable {
    /// The maximum nesting depth of sections.
    package static let maxDepth = 100

    let source: [UInt8]
    let instructions: [Instruction]

    /// Parses a template.
    /// - Throws: ``TemplateError`` (`syntax` or `function`) with the place of the error.
    package init(_ text: String) throws(TemplateError) {
        source = Array(text.utf8)
        instructions = try TemplateParser(source).instructions
    }

    /// Renders the template with a value.
    /// - Throws: ``TemplateError``: `missing` with the names that have no value, or `function` with the place of the
    ///   first function that does not apply to its argument.
    package func render(_ value: JSONValue) throws(TemplateError) -> String {
        var renderer = Renderer(template: self, root: value)
        return try renderer.text()
    }
}

/// An instruction of a template. The instructions are in the order of the text.
enum Instruction: Sendable {
    /// Prints bytes of the template.
    case text(Range<Int>)
    /// Prints a value.
    case value(Reference, isEscaped: Bool)
    /// Starts a section; `close` is the index of the instruction that ends it.
    case open(Reference, isInverted: Bool, close: Int)
    /// Ends a section; `open` is the index of the instruction that starts it.
    case close(open: Int)
}
