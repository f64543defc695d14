import LarderConfigModel
import LarderJSON5

extension ExperimentRules {
    /// `namespaces.NAME.experiments`.
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["unit", "member", "overlays"])
        self.init(
            unit: try reader.string("unit", expected: "a non-empty text", where: { !$0.isEmpty }),
            member: try reader.string("member", expected: "the name of a member", where: { !$0.isEmpty }),
            overlays: try reader.section("overlays", Self.overlays) ?? [])
    }

    private static func overlays(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [ExperimentOverlay] {
        guard let list = value.json else {
            throw SettingsError(
                "\(path) must not contain Infinity or NaN, which JSON does not have", member: path,
                offset: value.offset)
        }
        do throws(ExperimentOverlay.Problem) {
            return try ExperimentOverlay.all(in: list)
        } catch {
            var (member, offset) = (path, value.offset)
            if let index = error.index, case .array(let elements) = value.content {
                member = path.appending(index)
                offset = elements[index].offset
            }
            throw SettingsError("\(member) \(error.reason)", member: member, offset: offset)
        }
    }
}

extension HistoryLimits {
    /// `namespaces.NAME.history`.
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["count", "days", "maximumBytes"])
        self.init()
        count = try reader.integer("count", in: 1...1000) ?? count
        days = try reader.integer("days", in: 0...3650) ?? days
        maximumBytes = try reader.integer("maximumBytes", in: 65_536...1 << 40) ?? maximumBytes
    }
}
