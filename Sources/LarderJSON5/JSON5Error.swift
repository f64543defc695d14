/// The reason why a text is not a JSON5 document.
package struct JSON5Error: Error, Sendable {
    package enum Code: Sendable {
        /// The text is not valid UTF-8, or not valid JSON5.
        case syntax
        /// An object has two members with the same name.
        case duplicateMember
        /// The result of the parse is not needed any more.
        case cancelled
    }

    package let code: Code
    /// A text for people, in one line: what is wrong and how to fix it.
    package let reason: String
    /// The part of ``reason`` that quotes the document, including its quotation marks; nil if none does. Programs that
    /// must not show the content of a document replace it.
    package let quotation: String?
    /// The member that the error is about, if any.
    package let member: JSON5Path?
    /// The position of the error, in Unicode scalars from the start.
    package let offset: Int
    /// The line and column of the error, both from 1, the column in Unicode scalars; nil unless the error was returned
    /// by ``placed(in:)``.
    package private(set) var place: (line: Int, column: Int)?

    package init(_ code: Code, _ reason: String, quotation: String? = nil, member: JSON5Path? = nil, offset: Int) {
        (self.code, self.reason, self.quotation, self.member, self.offset) = (code, reason, quotation, member, offset)
    }

    /// Returns the error with its line and column.
    package func placed(in scalars: [Unicode.Scalar]) -> JSON5Error {
        var error = self
        error.place = JSON5Text.place(of: offset, in: scalars)
        return error
    }
}
