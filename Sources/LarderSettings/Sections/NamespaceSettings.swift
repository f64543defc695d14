import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderConfig

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
                "access", "history", "schema",
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
            guard isName(name) else {
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
