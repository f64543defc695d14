package import LarderConfig
import LarderConfigSources
package import LarderJSON
import LarderJSON5
import LarderUpstream
package import LarderServer
package import Logging

/// The settings of the agent, parsed and checked.
///
/// The file is JSON5 (JSON with comments, trailing commas and unquoted names). Every member is optional, and `null` is
/// the same as a missing member. An unknown member, a value out of range and invalid JSON5 are errors, because the
/// default would otherwise silently replace a misspelled limit.
///
/// A path is nil if the file does not set it. ``DefaultPaths`` then determines the path.
package struct Settings: Sendable, Equatable {
    /// `socket`: the socket for clients.
    package var socket = SocketSettings()
    /// `state.directory`: the directory of snapshots and overrides. An absolute path.
    package var stateDirectory: String?
    /// `cache.directory`: the directory of data that may be deleted without loss. An absolute path.
    package var cacheDirectory: String?
    /// `log.level`: the lowest level that is logged. Default: info.
    package var logLevel: Logger.Level = .info
    /// `current`: the plain files to which the agent copies the current snapshots.
    package var current = ExportOptions()
    /// `images`: the image cache.
    package var images = ImageSettings()
    /// `access`: the rights of users. If nil, the members of the group `larder` have the rights `read` and `images`.
    package var access: AccessSettings?
    /// `limits`: the limits of clients.
    package var limits = ConnectionLimits()
    /// `limits.documentBytes`: the maximum size of a configuration document, 1 KiB to 1 GiB. Default: 16 MiB.
    package var documentBytes = 16 << 20
    /// `service`: the agent as a systemd service.
    package var service = ServiceSettings()
    /// `report.labels`: the values of the placeholders `{label:NAME}`. Default: none.
    package var labels: [String: String] = [:]
    /// `report`: the reports about this host; nil if the section names no receiver.
    package var report: ReportSettings?
    /// `namespaces`: the namespaces by name. They always include `default`.
    package var namespaces: [String: NamespaceConfiguration] = ["default": .standard("default")]
    /// `namespaces.NAME.access`: for each namespace with this setting, the rights in it, which replace those of
    /// ``access``.
    package var namespaceAccess: [String: AccessSettings] = [:]

    /// The default settings.
    package init() {}
}

extension Settings {
    init(_ value: SettingsValue) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: .root,
            knowing: [
                "socket", "state", "cache", "log", "current", "images", "access", "limits", "service", "proxy",
                "report",
                "namespaces",
            ])
        socket = try reader.section("socket", SocketSettings.init) ?? socket
        stateDirectory = try reader.directory(in: "state")
        cacheDirectory = try reader.directory(in: "cache")
        logLevel = (try reader.section("log", Self.logLevel) ?? nil) ?? logLevel
        current = try reader.section("current", ExportOptions.init) ?? current
        images = try reader.section("images", ImageSettings.init) ?? images
        access = try reader.section("access", AccessSettings.init)
        try reader.section("limits") { (value, path) throws(SettingsError) in try readLimits(value, path) }
        service = try reader.section("service", ServiceSettings.init) ?? service
        try reader.section("report") { (value, path) throws(SettingsError) in try readReport(value, path) }
        let declared = try reader.section("namespaces", NamespaceConfiguration.all) ?? [:]
        namespaces.merge(declared) { _, declared in declared }
        let proxy = try reader.section("proxy", ProxyChoice.init)?.settings
        images.proxy = proxy
        if var access = report?.access {
            // A receiver without TLS is on this host. A proxy could read the reports.
            let isEncrypted = report?.url.lowercased().hasPrefix("https:") ?? false
            access.proxy = isEncrypted ? access.proxy.inheriting(proxy) : .direct
            report?.access = access
        }
        for (name, namespace) in namespaces {
            namespaces[name]?.remote = namespace.remote?.inheriting(proxy: proxy)
        }
        namespaceAccess = try reader.section("namespaces", AccessSettings.ofNamespaces) ?? [:]
    }

    /// Reads `report`: the labels of the host, and the receiver of its reports.
    private mutating func readReport(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let members = ["url", "intervalSeconds", "splaySeconds", "includeReasons"] + HTTPAccess.settings
        let reader = try SettingsReader(value, at: path, knowing: members + ["labels"])
        labels = try reader.section("labels", Self.labels) ?? labels
        guard let url = try reader.url("url") else {
            guard let member = members.first(where: reader.has) else { return }
            throw reader.failure(
                member, "has no effect without \"url\"; add the URL of the receiver, which begins with https://")
        }
        guard (try? FetchURL(parsing: url))?.isPrivate ?? false else {
            throw reader.failure(
                "url",
                "must begin with \"https://\", because reports describe this host; http is only for this host itself")
        }
        var report = ReportSettings(url: url)
        report.interval = try reader.integer("intervalSeconds", in: 30...86_400).map { .seconds($0) } ?? report.interval
        report.splay = try reader.integer("splaySeconds", in: 0...3600).map { .seconds($0) } ?? report.splay
        report.includesReasons = try reader.truth("includeReasons") ?? false
        report.labels = labels
        report.access = try HTTPAccess(reader, for: url)
        self.report = report
    }

    private static func labels(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) -> [String: String] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var labels: [String: String] = [:]
        for name in reader.names {
            guard Placeholders.isLabelName(name) else {
                throw reader.failure(name, "is not a valid label name; use 1 to 64 letters, digits, \"_\" and \"-\"")
            }
            labels[name] = try reader.string(
                name, expected: "a text of 1 to 255 bytes without control characters, in quotes"
            ) { (1...255).contains($0.utf8.count) && !$0.utf8.contains { $0 < 0x20 || $0 == 0x7f } }
        }
        return labels
    }

    private static func logLevel(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) -> Logger.Level? {
        try SettingsReader(value, at: path, knowing: ["level"]).choice("level")
    }
}

/// `socket`: the socket for clients. These settings are ignored if systemd passes the socket.
package struct SocketSettings: Sendable, Equatable {
    /// The maximum length of a socket path in bytes: that of `sun_path` (`unix(7)`) without the final NUL.
    package static let maxPathBytes = 107

    /// `path`: an absolute path of at most ``maxPathBytes`` bytes.
    @ComparedAsBytes package var path: String?
    /// `mode`: the permission bits of the socket; an octal number in quotes in the file. Default: "0660".
    package var mode: UInt32 = 0o660
    /// `group`: the group of the socket, by name or ID. Default: the group of the process.
    @ComparedAsBytes package var group: String?

    package init() {}
}

extension SocketSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path", "mode", "group"])
        path = try reader.path("path", maximumBytes: Self.maxPathBytes)
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

/// `service`: the agent as a systemd service.
package struct ServiceSettings: Sendable, Equatable {
    /// `idleExitMinutes`: the number of minutes without a client after which the agent exits, 1 to 10080 (a week).
    /// Applies only if systemd passed the socket, because systemd then starts the agent for the next client. Default:
    /// the agent does not exit.
    package var idleExitMinutes: Int?

    package init() {}
}

extension ServiceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["idleExitMinutes"])
        idleExitMinutes = try reader.integer("idleExitMinutes", in: 1...10080)
    }
}

extension Settings {
    /// Reads `limits`: the limits of connections, and the maximum size of a document.
    mutating func readLimits(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "connections", "connectionsPerUser", "subscriptionsPerConnection", "subscriptionsPerUser",
                "requestsInFlightPerConnection", "requestsInFlightPerUser", "leasesPerUser", "queuedBytesPerUser",
                "lineBytes", "documentBytes", "sendTimeoutSeconds",
            ])
        documentBytes = try reader.integer("documentBytes", in: 1024...1 << 30) ?? documentBytes
        limits.connections = try reader.integer("connections", in: 1...1_000_000) ?? limits.connections
        limits.connectionsPerUser = try reader.integer("connectionsPerUser", in: 1...1_000_000)
        limits.subscriptionsPerConnection =
            try reader.integer("subscriptionsPerConnection", in: 1...65536) ?? limits.subscriptionsPerConnection
        limits.subscriptionsPerUser =
            try reader.integer("subscriptionsPerUser", in: 1...10_000_000) ?? limits.subscriptionsPerUser
        limits.requestsInFlightPerConnection =
            try reader.integer("requestsInFlightPerConnection", in: 1...65536) ?? limits.requestsInFlightPerConnection
        limits.requestsInFlightPerUser =
            try reader.integer("requestsInFlightPerUser", in: 1...10_000_000) ?? limits.requestsInFlightPerUser
        limits.leasesPerUser = try reader.integer("leasesPerUser", in: 1...10_000_000) ?? limits.leasesPerUser
        limits.queuedBytesPerUser =
            try reader.integer("queuedBytesPerUser", in: 1 << 20...1 << 40) ?? limits.queuedBytesPerUser
        limits.lineBytes = try reader.integer("lineBytes", in: 1024...64 << 20) ?? limits.lineBytes
        limits.sendTimeout = try reader.seconds("sendTimeoutSeconds", in: 1...3600) ?? limits.sendTimeout
    }
}
