import LarderJSON5

/// Why a settings file, or the environment that stands in for one, cannot be used.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure. New kinds may be added, so a `switch` over it needs a default.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String {
            case fileNotFound
            case fileUnreadable
            case fileTooLarge
            case syntax
            case duplicateMember
            case unknownMember
            case wrongType
            case invalidValue
            case noDefaultPath
        }

        private let value: Value

        /// There is no such file.
        package static let fileNotFound = Code(value: .fileNotFound)
        /// The file exists and cannot be read.
        package static let fileUnreadable = Code(value: .fileUnreadable)
        /// The file is larger than ``Settings/maximumFileBytes``.
        package static let fileTooLarge = Code(value: .fileTooLarge)
        /// The text is not JSON5 in UTF-8.
        package static let syntax = Code(value: .syntax)
        /// A member is given twice in one object.
        package static let duplicateMember = Code(value: .duplicateMember)
        /// A member that no setting has.
        package static let unknownMember = Code(value: .unknownMember)
        /// A value of another type than the setting's.
        package static let wrongType = Code(value: .wrongType)
        /// A value of the right type that the setting does not take, or one that is missing.
        package static let invalidValue = Code(value: .invalidValue)
        /// The environment does not say where a default path would be.
        package static let noDefaultPath = Code(value: .noDefaultPath)

        /// The code's name, as in `SettingsError.Code.unknownMember`.
        package var description: String { value.rawValue }
    }

    package let code: Code
    /// One line: what is wrong, and what to do about it.
    package let reason: String
    /// The setting that is meant, such as `limits.connections`; `nil` when it is none in particular.
    package let member: String?
    /// The file; `nil` when the text did not come from one.
    package internal(set) var file: String?
    /// The line where the problem stands, counted from 1.
    package internal(set) var line: Int?
    /// The column where the problem stands, counted from 1 in Unicode scalars.
    package internal(set) var column: Int?

    /// Where the problem stands in the text, in Unicode scalars; turned into ``line`` and ``column`` by who has the text.
    var offset: Int?
    /// Whether it may be due to another member of the same object, such as one that is missing.
    var isContextual = false

    /// `FILE:LINE:COLUMN: REASON`, as compilers write it; one line.
    package var description: String {
        let place = [file, line.map(String.init), column.map(String.init)].compactMap(\.self)
        return place.isEmpty ? reason : "\(place.joined(separator: ":")): \(reason)"
    }

    init(_ code: Code, _ reason: String, member: SettingsPath? = nil, offset: Int? = nil) {
        self.code = code
        self.reason = reason
        self.member = member?.description
        self.offset = offset
    }
}
