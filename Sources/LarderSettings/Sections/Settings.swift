package import LarderConfig
import LarderJSON5
package import LarderServer
package import Logging

/// What the administrator or the user may choose: the settings file, read and checked.
///
/// The file is JSON5 (JSON with comments, trailing commas and bare names). Everything in it may be left out, and `null`
/// means the same as leaving it out. A member that is not known, a value out of its range and a text that is not JSON5
/// are errors: a misspelt limit must not pass for the default.
///
/// The paths are `nil` where the file says nothing; ``DefaultPaths`` has what applies then.
package struct Settings: Sendable, Equatable {
    /// `socket`: where clients connect.
    package var socket = SocketSettings()
    /// `state.directory`: where snapshots and overrides are kept. An absolute path.
    package var stateDirectory: String?
    /// `cache.directory`: what may be deleted without loss. An absolute path.
    package var cacheDirectory: String?
    /// `log.level`: the lowest level that is logged. Default: info.
    package var logLevel: Logger.Level = .info
    /// `current`: plain copies of the snapshots.
    package var current = ExportOptions()
    /// `images`: the image cache.
    package var images = ImageSettings()
    /// `access`: who may do what; `nil` where the group `larder` may read and have images, if there is one.
    package var access: AccessSettings?
    /// `limits`: what clients may use.
    package var limits = ConnectionLimits()
    /// `limits.documentBytes`: the largest configuration document, 1 KiB to 1 GiB. Default: 16 MiB.
    package var documentBytes = 16 << 20
    /// `service`: the agent as a service of systemd.
    package var service = ServiceSettings()
    /// `namespaces`: the configuration documents by their names. `default` is always among them.
    package var namespaces: [String: NamespaceConfiguration] = ["default": .usual("default")]
    /// `namespaces.NAME.access`: who may do what in a namespace, instead of ``access``.
    package var namespaceAccess: [String: AccessSettings] = [:]

    /// The settings of an empty file: every default.
    package init() {}
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
        current = try reader.section("current", ExportOptions.init) ?? current
        images = try reader.section("images", ImageSettings.init) ?? images
        access = try reader.section("access", AccessSettings.init)
        try reader.section("limits") { (value, path) throws(SettingsError) in try readLimits(value, path) }
        service = try reader.section("service", ServiceSettings.init) ?? service
        let declared = try reader.section("namespaces", NamespaceConfiguration.all) ?? [:]
        namespaces.merge(declared) { _, declared in declared }
        namespaceAccess = try reader.section("namespaces", AccessSettings.ofNamespaces) ?? [:]
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

/// `socket`: where clients connect. None of it applies to a socket that the service manager passed.
package struct SocketSettings: Sendable, Equatable {
    /// The longest path of a socket in bytes: `sun_path` of `unix(7)`, less its final NUL.
    package static let maximumPathBytes = 107

    /// `path`: the socket's absolute path, of at most ``maximumPathBytes`` bytes.
    package var path: String?
    /// `mode`: the permission bits of the socket, in the file an octal number in quotes. Default: "0660".
    package var mode: UInt32 = 0o660
    /// `group`: the group, by name or number, that the socket is given to. Default: that of the process.
    package var group: String?

    package init() {}
}

extension SocketSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path", "mode", "group"])
        path = try reader.path("path", maximumBytes: Self.maximumPathBytes)
        mode = try reader.permissions("mode", example: "0660") ?? mode
        group = try reader.string("group", expected: "the name or number of a group, in quotes") { group in
            !group.isEmpty && !group.unicodeScalars.contains { $0.value <= 0x20 || $0 == ":" || $0.value == 0x7f }
        }
    }
}

extension ExportOptions {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        self.init()
        let reader = try SettingsReader(value, at: path, knowing: ["enabled", "mode"])
        isEnabled = try reader.truth("enabled") ?? isEnabled
        mode = try reader.permissions("mode", example: "0640") ?? mode
    }
}

/// `service`: the agent as a service of systemd.
package struct ServiceSettings: Sendable, Equatable {
    /// `idleExitMinutes`: how long nobody must have been connected before the agent ends by itself, 1 to 10080 (a week); only
    /// where systemd holds the socket, which starts it again. Default: it stays.
    package var idleExitMinutes: Int?

    package init() {}
}

extension ServiceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["idleExitMinutes"])
        idleExitMinutes = try reader.integer("idleExitMinutes", in: 1...10080)
    }
}
