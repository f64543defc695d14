internal import LarderJSON
internal import LarderJSON5

/// The settings that had another name, or another word as a value, in an earlier version.
///
/// In a settings file, such a name or word is an error that names the new one. In settings that the agent saved itself,
/// it is replaced (``migrated(_:)``), so that the agent still starts with them after an upgrade.
enum RenamedSettings {
    /// In a section, `*` stands for any name.
    private static let names: [(section: [String], old: String, new: String)] = [
        (["limits"], "stallSeconds", "sendTimeoutSeconds"),
        (["images"], "imageBytes", "maximumImageBytes"),
        (["images"], "imagePixels", "maximumImagePixels"),
        (["images", "failures"], "refusedSeconds", "rejectedSeconds"),
        (["namespaces", "*", "remote", "http"], "answerPath", "responsePath"),
    ]

    /// The settings whose value `refuse` is now `reject`.
    private static let rejectingSettings = [
        ["namespaces", "*", "schema", "enforce"], ["namespaces", "*", "remote", "http", "partialData"],
    ]

    /// Returns the present name of a setting; nil if no setting of the section had the given name.
    static func newName(of name: String, in section: [String]) -> String? {
        names.first { $0.old.isSpelled(as: name) && matches(section, $0.section) }?.new
    }

    /// Returns settings of an earlier version with the present names and words. Their offsets stay.
    static func migrated(_ settings: SettingsValue) -> SettingsValue { migrated(settings, at: []) }

    private static func migrated(_ value: SettingsValue, at path: [String]) -> SettingsValue {
        switch value.content {
        case .object(let members):
            let renamed = members.map { member in
                SettingsValue.Member(
                    name: newName(of: member.name, in: path) ?? member.name, offset: member.offset,
                    value: migrated(member.value, at: path + [member.name]))
            }
            return SettingsValue(content: .object(renamed), offset: value.offset)
        case .string("refuse") where rejectingSettings.contains(where: { matches(path, $0) }):
            return SettingsValue(content: .string("reject"), offset: value.offset)
        default: return value
        }
    }

    private static func matches(_ path: [String], _ pattern: [String]) -> Bool {
        path.count == pattern.count && zip(path, pattern).allSatisfy { $1 == "*" || $0.isSpelled(as: $1) }
    }
}
