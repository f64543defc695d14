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

/// An error in a template or in the value that it is rendered with.
package struct TemplateError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable {
        case syntax
        /// The template calls a function that does not exist or does not apply to its argument.
        case function
        /// The template uses a name that has no value.
        case missing
    }

    package struct Place: Sendable, Equatable, CustomStringConvertible {
        /// The number of the line, from 1.
        package let line: Int
        /// The number of the character in the line, from 1.
        package let column: Int

        /// `LINE:COLUMN`
        package var description: String { "\(line):\(column)" }

        /// The place of the byte at an offset.
        init(of offset: Int, in source: [UInt8]) {
            let before = source[..<offset]
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            line = before.count { $0 == UInt8(ascii: "\n") } + 1
            column = String(decoding: source[start..<offset], as: UTF8.self).count + 1
        }
    }

    package let code: Code
    /// The place of the error; nil for missing names, which can be in several places.
    package let place: Place?
    /// A description of the error. For most syntax errors it includes advice.
    package let text: String

    /// The place, if there is one, and the text.
    package var description: String { place.map { "\($0): \(text)" } ?? text }

    init(_ code: Code, at offset: Int, in source: [UInt8], _ text: String) {
        self.code = code
        place = Place(of: offset, in: source)
        self.text = text
    }

    init(missing text: String) {
        code = .missing
        place = nil
        self.text = text
    }
}

extension String {
    /// The name for an error message, truncated to 60 code points. Code points are counted, because a single character
    /// can consist of any number of them.
    var shownName: String {
        let limit = 60
        guard let end = unicodeScalars.index(startIndex, offsetBy: limit, limitedBy: endIndex), end < endIndex else {
            return self
        }
        return String(unicodeScalars[..<end]) + "…"
    }
}
