import LarderJSON5

/// Why a settings file, or a default path from the environment, cannot be used.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure.
    package enum Code: Sendable {
        /// The file does not exist.
        case fileNotFound
        /// A member is not a setting.
        case unknownMember
        /// Anything else.
        case invalid
    }

    package let code: Code
    /// The problem and what to do, in one line.
    package let reason: String
    /// The setting with the problem, such as `limits.connections`; nil if the problem is not in one setting.
    package let member: String?
    /// The file; nil if the text did not come from a file.
    package internal(set) var file: String?
    /// The line of the problem, from 1.
    package internal(set) var line: Int?
    /// The column of the problem in Unicode scalars, from 1.
    package internal(set) var column: Int?

    /// The position of the problem in the ``SettingsText``. Nil once it has been converted to ``file``, ``line`` and
    /// ``column``.
    var offset: Int?
    /// Whether the cause may be another member of the same object, for example a missing one.
    var isContextual = false

    /// `FILE:LINE:COLUMN: REASON`, in the format of compilers; one line.
    package var description: String {
        let place = [file, line.map(String.init), column.map(String.init)].compactMap(\.self)
        return place.isEmpty ? reason : "\(place.joined(separator: ":")): \(reason)"
    }

    init(
        _ reason: String, code: Code = .invalid, member: SettingsPath? = nil, offset: Int? = nil, file: String? = nil
    ) {
        self.code = code
        self.file = file
        self.reason = reason
        self.member = member?.description
        self.offset = offset
    }
}
