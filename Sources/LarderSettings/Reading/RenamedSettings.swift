internal import LarderJSON
internal import LarderJSON5

/// The settings that had another name in an earlier version.
///
/// In a settings file, such a name is an error that names the new one. In settings that the agent saved itself, it is
/// replaced (``migrated(_:)``), so that the agent still starts with them after an upgrade.
enum RenamedSettings {
    /// In a section, `*` stands for any name.
    private static let names: [(section: [String], old: String, new: String)] = [
        (["limits"], "stallSeconds", "sendTimeoutSeconds"),
        (["images"], "imageBytes", "maximumImageBytes"),
        (["images"], "imagePixels", "maximumImagePixels"),
        (["namespaces", "*", "remote", "http"], "answerPath", "responsePath"),
    ]

    /// Returns the present name of a setting; nil if no setting of the section had the given name.
    static func newName(of name: String, in section: [String]) -> String? {
        names.first { $0.old.isSpelled(as: name) && matches(section, $0.section) }?.new
    }

    /// Returns settings of an earlier version with the present names. Their offsets stay.
    static func migrated(_ settings: SettingsValue) -> SettingsValue { migrated(settings, in: []) }

    private static func migrated(_ value: SettingsValue, in section: [String]) -> SettingsValue {
        guard case .object(let members) = value.content else { return value }
        let renamed = members.map { member in
            SettingsValue.Member(
                name: newName(of: member.name, in: section) ?? member.name, offset: member.offset,
                value: migrated(member.value, in: section + [member.name]))
        }
        return SettingsValue(content: .object(renamed), offset: value.offset)
    }

    private static func matches(_ section: [String], _ pattern: [String]) -> Bool {
        section.count == pattern.count && zip(section, pattern).allSatisfy { $1 == "*" || $0.isSpelled(as: $1) }
    }
}
