/// Why a text is not a document in JSON5.
package struct JSON5Error: Error, Sendable {
    package enum Code: Sendable {
        /// The text is not JSON5 in UTF-8.
        case syntax
        /// A member is given twice in one object.
        case duplicateMember
    }

    package let code: Code
    /// One line: what is wrong, and what to do about it.
    package let reason: String
    /// The member that it is about, if it is about one.
    package let member: JSON5Path?
    /// The place, in Unicode scalars from the start.
    package let offset: Int
    /// The line and the column in Unicode scalars, both from 1; nil until ``placed(in:)``.
    package private(set) var place: (line: Int, column: Int)?

    package init(_ code: Code, _ reason: String, member: JSON5Path? = nil, offset: Int) {
        (self.code, self.reason, self.member, self.offset) = (code, reason, member, offset)
    }

    /// The error with its line and column.
    package func placed(in scalars: [Unicode.Scalar]) -> JSON5Error {
        var error = self
        error.place = JSON5Text.place(of: offset, in: scalars)
        return error
    }
}
