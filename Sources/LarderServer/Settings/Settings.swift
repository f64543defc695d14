public import Logging

/// What the administrator or the user may choose: the settings file, read and checked.
///
/// The file is JSON5 (JSON with comments, trailing commas and bare names). Everything in it may be left out, and `null`
/// means the same as leaving it out. A member that is not known, a value out of its range and a text that is not JSON5
/// are errors: a misspelt limit must not pass for the default.
///
/// The paths are `nil` where the file says nothing; ``DefaultPaths`` has what applies then.
public struct Settings: Sendable, Equatable {
    /// `socket`: where clients connect.
    public var socket = SocketSettings()
    /// `state.directory`: where snapshots and overrides are kept. An absolute path.
    public var stateDirectory: String?
    /// `cache.directory`: what may be deleted without loss. An absolute path.
    public var cacheDirectory: String?
    /// `log.level`: the lowest level that is logged. Default: info.
    public var logLevel: Logger.Level = .info
    /// `current`: plain copies of the snapshots.
    public var current = CurrentSettings()
    /// `images`: the image cache.
    public var images = ImageSettings()
    /// `access`: who may do what; `nil` where the group `larder` may read and have images, if there is one.
    public var access: AccessSettings?
    /// `limits`: what clients may use.
    public var limits = LimitSettings()
    /// `service`: the agent as a service of systemd.
    public var service = ServiceSettings()
    /// `namespaces`: the configuration documents by their names. `default` is always among them.
    public var namespaces: [String: NamespaceSettings] = ["default": NamespaceSettings()]

    /// The settings of an empty file: every default.
    public init() {}
}

extension Settings {
    init(_ value: SettingsValue) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: .root,
            knowing: [
                "socket", "state", "cache", "log", "current", "images", "access", "limits", "service", "namespaces",
            ])
        socket = try reader.section("socket", SocketSettings.init) ?? socket
        stateDirectory = try reader.section("state", Self.directory) ?? nil
        cacheDirectory = try reader.section("cache", Self.directory) ?? nil
        logLevel = try reader.section("log", Self.logLevel) ?? logLevel
        current = try reader.section("current", CurrentSettings.init) ?? current
        images = try reader.section("images", ImageSettings.init) ?? images
        access = try reader.section("access", AccessSettings.init)
        limits = try reader.section("limits", LimitSettings.init) ?? limits
        service = try reader.section("service", ServiceSettings.init) ?? service
        let declared = try reader.section("namespaces", NamespaceSettings.all) ?? [:]
        namespaces.merge(declared) { _, declared in declared }
    }

    private static func directory(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) -> String? {
        try SettingsReader(value, at: path, knowing: ["directory"]).path("directory")
    }

    private static func logLevel(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) -> Logger.Level {
        let reader = try SettingsReader(value, at: path, knowing: ["level"])
        let word = try reader.choice("level", Logger.Level.allCases.map(\.rawValue))
        return word.flatMap(Logger.Level.init(rawValue:)) ?? Settings().logLevel
    }
}
