internal import LarderJSON5

typealias SettingsValue = JSON5Value
typealias SettingsPath = JSON5Path
typealias SettingsText = JSON5Shown

extension SettingsError {
    /// Converts a parse error.
    init(_ error: JSON5Error) {
        self.init(
            error.code == .syntax ? .syntax : .duplicateMember, error.reason, member: error.member, offset: error.offset
        )
        if let place = error.place { (line, column, offset) = (place.line, place.column, nil) }
    }
}
