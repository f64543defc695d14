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
