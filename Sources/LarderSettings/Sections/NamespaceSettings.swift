import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderConfig
import LarderJSON5

/// `namespaces.NAME`. Two values from outside this section are added later: the maximum size of the document, and the
/// default directory of the `host` layer.
extension NamespaceConfiguration {
    /// A namespace with the default settings.
    static func standard(_ name: String) -> NamespaceConfiguration {
        NamespaceConfiguration(name: name, maximumDeletion: 90, isHostDirectoryNamed: false)
    }

    private init(_ name: String, _ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "durability", "defaults", "host", "remote", "maximumDeletionPercent", "locks", "experiments", "secrets",
                "access", "history", "schema", "flags",
            ])
        self = .standard(name)
        durability = try reader.choice("durability") ?? durability
        defaultsPath = try reader.section("defaults", Self.defaultsPath)
        hostDirectory = try reader.directory(in: "host")
        isHostDirectoryNamed = hostDirectory != nil
        remote = try reader.section("remote", RemoteSourceSettings.init)
        if reader.isNull("maximumDeletionPercent") {
            maximumDeletion = nil
        } else {
            maximumDeletion = try reader.integer("maximumDeletionPercent", in: 0...100) ?? maximumDeletion
        }
        let locked = try reader.strings("locks", each: "a path such as \"search.limit\"", where: JSONPath.isSetting)
        experiments = try reader.section("experiments", ExperimentRules.init) ?? experiments
        let patterns = try reader.strings(
            "secrets", each: "a path such as \"db.password\" or \"*.token\"", where: JSONPath.isSetting)
        history = try reader.section("history", HistoryLimits.init) ?? history
        schema = try reader.section("schema", SchemaSettings.init)
        flags = try reader.section("flags", FlagSettings.init)
        // Parsing does not fail here, because the paths and patterns were checked above.
        locks = (try? locked?.map(JSONPath.init(parsing:))) ?? []
        secrets = (try? patterns.map(SecretPatterns.init)) ?? .none
    }

    private static func defaultsPath(
        _ value: SettingsValue, _ settingsPath: SettingsPath
    ) throws(SettingsError) -> String {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path"])
        guard let path = try reader.path("path") else { throw reader.failure(nil, "needs \"path\", an absolute path") }
        return path
    }

    /// Reads all namespaces of the settings.
    static func all(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [String: NamespaceConfiguration] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var namespaces: [String: NamespaceConfiguration] = [:]
        for name in reader.names {
            guard NamespaceName.isValid(name) else {
                throw reader.failure(
                    name,
                    "is not a valid namespace name; use 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", "
                        + "beginning with a letter or a digit")
            }
            // A namespace without settings, such as `web: null`, exists with the defaults.
            namespaces[name] =
                try reader.section(name) { (value, path) throws(SettingsError) in
                    try NamespaceConfiguration(name, value, path)
                } ?? NamespaceConfiguration.standard(name)
        }
        return namespaces
    }
}

extension SchemaSettings {
    /// `namespaces.NAME.schema`.
    fileprivate init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: settingsPath, knowing: ["path", "enforce", "maximumErrors", "assertFormats"])
        guard let path = try reader.path("path") else { throw reader.failure(nil, "needs \"path\", an absolute path") }
        self.init(path: path)
        enforcement = try reader.choice("enforce") ?? enforcement
        maximumErrors = try reader.integer("maximumErrors", in: 1...20) ?? maximumErrors
        assertsFormats = try reader.truth("assertFormats")
    }
}

extension FlagSettings {
    /// `namespaces.NAME.flags`.
    fileprivate init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["member"])
        let expected = "the name of the member with the flags, or \"\" if the whole document is in flagd's format"
        guard let member = try reader.string("member", expected: expected, where: { _ in true }) else {
            throw reader.failure(nil, "needs \"member\", \(expected)")
        }
        self.init(member: member)
    }
}

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
