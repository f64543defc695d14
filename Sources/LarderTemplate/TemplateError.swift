/// What is wrong with a template, or with what it is given.
package struct TemplateError: Error, Equatable, CustomStringConvertible {
    /// The kinds of errors.
    package enum Code: Sendable {
        case syntax
        /// There is no such function, or none for the value in question.
        case function
        /// The template asks for something that is not there.
        case missing
    }

    package struct Place: Sendable, Equatable, CustomStringConvertible {
        /// The line, from 1.
        package let line: Int
        /// The character of the line, from 1.
        package let column: Int

        /// `LINE:COLUMN`
        package var description: String { "\(line):\(column)" }

        /// The place of a byte.
        init(of offset: Int, in source: [UInt8]) {
            let before = source[..<offset]
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            line = before.count { $0 == UInt8(ascii: "\n") } + 1
            column = String(decoding: source[start..<offset], as: UTF8.self).count + 1
        }
    }

    package let code: Code
    /// Where; nil for what is missing, which may be in many places.
    package let place: Place?
    /// What is wrong and, where the template is, what to do about it.
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
    /// A name as an error shows it: of one that is longer than anybody reads only the beginning. It is cut by code points:
    /// a character may consist of any number of them.
    var shownName: String {
        let most = 60
        guard let end = unicodeScalars.index(startIndex, offsetBy: most, limitedBy: endIndex), end < endIndex else {
            return self
        }
        return String(unicodeScalars[..<end]) + "…"
    }
}
