public import JSON
public import LarderConfig

/// `namespaces.NAME`: one configuration document, and where it comes from.
public struct NamespaceSettings: Sendable, Equatable {
    /// When a change from a local client is acknowledged.
    public enum Durability: String, Sendable, CaseIterable {
        /// Once it is on disk.
        case full
        /// At once; it is written behind.
        case relaxed
    }

    /// `durability`. Default: full.
    public var durability = Durability.full
    /// `defaults`: what programs are shipped with; `nil` for no such layer.
    public var defaults: DefaultsLayerSettings?
    /// `host`: the administrator's files.
    public var host = HostLayerSettings()
    /// `remote`: the upstream; `nil` when there is none.
    public var remote: RemoteSettings?
    /// `maximumDeletionPercent`: a document of the remote source that removes a larger share of the members held is refused
    /// unless it is forced; `nil` for no limit. Default 90.
    public var maximumDeletionPercent: Int? = 90
    /// `locks`: paths that stay as the files of `defaults` and `host` have them. Default: none.
    public var locks: [JSONPath] = []
    /// `experiments`: overlays for a part of all hosts. Default: none.
    public var experiments = ExperimentRules()
    /// `secrets`: which values are masked for peers that may not see secrets. Default: none.
    public var secrets = SecretPatterns.none
    /// `access`: who may do what in this namespace, in the place of what holds for the whole agent; `nil` where that holds.
    public var access: AccessSettings?

    public init() {}
}

/// `namespaces.NAME.host`: the layer of the administrator's files.
public struct HostLayerSettings: Sendable, Equatable {
    /// `directory`: the directory whose `*.json` files are merged in the order of their names. An absolute path.
    public var directory: String?

    public init() {}
}

extension NamespaceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "durability", "defaults", "host", "remote", "maximumDeletionPercent", "locks", "experiments", "secrets",
                "access",
            ])
        let word = try reader.choice("durability", Durability.allCases.map(\.rawValue))
        durability = word.flatMap(Durability.init(rawValue:)) ?? durability
        defaults = try reader.section("defaults", DefaultsLayerSettings.init)
        host = try reader.section("host", HostLayerSettings.init) ?? host
        remote = try reader.section("remote", RemoteSettings.init)
        if reader.isNull("maximumDeletionPercent") {
            maximumDeletionPercent = nil
        } else {
            maximumDeletionPercent =
                try reader.integer("maximumDeletionPercent", in: 0...100) ?? maximumDeletionPercent
        }
        let locked = try reader.strings("locks", each: "a path such as \"search.limit\"", where: Self.isPath)
        experiments = try reader.section("experiments", ExperimentRules.init) ?? experiments
        let patterns = try reader.strings(
            "secrets", each: "a path such as \"db.password\" or \"*.token\"", where: Self.isPath)
        // Each text was checked one line above.
        locks = (try? locked?.map(JSONPath.init(parsing:))) ?? []
        secrets = (try? patterns.map(SecretPatterns.init)) ?? .none
        access = try reader.section("access", AccessSettings.ofNamespace)
    }

    /// A path to a part of the document.
    private static func isPath(_ text: String) -> Bool { !text.isEmpty && (try? JSONPath(parsing: text)) != nil }

    /// All namespaces of the file.
    static func all(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) -> [String: NamespaceSettings] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var namespaces: [String: NamespaceSettings] = [:]
        for name in reader.names {
            guard isName(name) else {
                throw reader.failure(
                    name,
                    "is no name of a namespace; use 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", "
                        + "the first a letter or a digit")
            }
            // A namespace that is only named, as in `web: null`, exists with every default.
            namespaces[name] = try reader.section(name, NamespaceSettings.init) ?? NamespaceSettings()
        }
        return namespaces
    }

    /// Whether a text matches `[a-z0-9][a-z0-9._-]{0,63}`.
    static func isName(_ text: String) -> Bool {
        func isLetterOrDigit(_ byte: UInt8) -> Bool {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard let first = text.utf8.first, isLetterOrDigit(first), text.utf8.count <= 64 else { return false }
        return text.utf8.allSatisfy { isLetterOrDigit($0) || "._-".utf8.contains($0) }
    }
}

extension HostLayerSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        directory = try SettingsReader(value, at: path, knowing: ["directory"]).path("directory")
    }
}
