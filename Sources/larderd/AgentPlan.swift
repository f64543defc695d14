import LarderJSON
import LarderConfig
import LarderImages
import LarderPlatform
import LarderServer
import LarderSettings
import LarderProtocol
import Logging
import Glibc

/// What the agent is to do: the settings file, the command line over it, and the default paths under it.
struct AgentPlan: Sendable {
    /// The settings file in force; nil where there is none.
    var settingsPath: String?
    var settings: Settings
    /// When they were read: what is changed in the file from then on is not among them.
    private let settingsReadAt = Timestamp(milliseconds: WallClock.system.now)
    /// nil where no default is known; an activated socket needs none.
    var socketPath: Result<String, SettingsError>
    var stateDirectory: String
    /// Where the images are; nil where the settings switch the image cache off.
    var imageDirectory: String?
    var logLevel: Logger.Level
    var namespaces: [NamespaceConfiguration]
    private let command: Larderd

    /// Puts the plan together.
    /// - Throws: `SettingsError`, one line that says what to do.
    init(_ command: Larderd) throws {
        let path = Self.settingsPath(command)
        if let path, command.settings == nil {
            let found = try Settings.loadIfPresent(at: path)
            try self.init(command, found ?? Settings(), path: found == nil ? nil : path)
        } else {
            try self.init(command, Settings.load(from: path), path: path)
        }
    }

    /// The settings file: the one that the command line names, or the usual one, which need not be there.
    static func settingsPath(_ command: Larderd) -> String? {
        command.settings ?? (try? DefaultPaths(environment: environment, userID: getuid()).settingsFile)
    }

    /// Puts the plan together for settings that were read.
    /// - Parameter path: the file that they are from; nil for the defaults.
    init(_ command: Larderd, _ settings: Settings, path: String?) throws {
        self.command = command
        self.settings = settings
        settingsPath = path
        let paths = DefaultPaths(environment: Self.environment, userID: getuid())
        socketPath = Result { () throws(SettingsError) in
            if let path = command.socket.map(Self.absolute) ?? settings.socket.path { return path }
            return try paths.socket
        }
        stateDirectory =
            try command.stateDirectory.map(Self.absolute) ?? settings.stateDirectory ?? paths.stateDirectory
        if settings.images.isEnabled {
            let cache = try command.cacheDirectory.map(Self.absolute) ?? settings.cacheDirectory ?? paths.cacheDirectory
            imageDirectory = cache + "/images"
        }
        logLevel = command.logLevel ?? settings.logLevel
        let hostDirectory = command.settings.map(Self.directoryBeside) ?? (try? paths.hostLayerDirectory)
        namespaces = Self.namespaces(settings, settingsPath, hostDirectory: hostDirectory)
    }

    /// Where its settings are from.
    var settingsSource: ServerContext.SettingsSource {
        ServerContext.SettingsSource(path: settingsPath, readAt: settingsReadAt)
    }

    /// The limits in force. Clients never get the last descriptors: without any the agent could neither write a change
    /// down nor ask a source.
    var limits: ConnectionLimits {
        var limits = settings.limits
        // With images: downloads, each with a socket and a file, and what is open to be passed on. Where descriptors are
        // few, clients come first: an image can be asked for again.
        let images =
            imageDirectory == nil ? 0 : min(256 + 2 * settings.images.flights.total, Process.descriptorLimit / 4)
        let reserved = 64 + 4 * namespaces.count + images
        let possible = max(1, Process.descriptorLimit - reserved)
        limits.isBoundByDescriptors = possible < limits.connections
        limits.connections = min(limits.connections, possible)
        return limits
    }

    /// The plan as the settings file says it now.
    /// - Throws: what is wrong with it, also where it is gone: that is no wish for an agent without settings.
    func reread() throws -> AgentPlan {
        let next = try AgentPlan(command)
        if let settingsPath, next.settingsPath == nil {
            throw AgentError("\(settingsPath) is gone; put it back, or restart the agent to run it without settings")
        }
        return next
    }

    /// The namespaces that the settings declare. The administrator's usual directory is the host layer of `default`.
    private static func namespaces(
        _ settings: Settings, _ settingsPath: String?, hostDirectory: String?
    ) -> [NamespaceConfiguration] {
        settings.namespaces.values.sorted { $0.name < $1.name }.map { namespace in
            var namespace = namespace
            namespace.limitDocuments(to: settings.documentBytes)
            if namespace.name == "default" { namespace.hostDirectory = namespace.hostDirectory ?? hostDirectory }
            namespace.settingsPath = settingsPath
            return namespace
        }
    }

    /// The directory of the administrator's files beside a settings file that the command line names.
    private static func directoryBeside(_ settings: String) -> String {
        let path = absolute(settings)
        return "\(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])/config.d"
    }

    private static func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        guard let current = getcwd(nil, 0) else { return path }
        defer { free(current) }
        return String(cString: current) + "/" + path
    }

    private static var environment: [String: String] {
        let names = [
            "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "RUNTIME_DIRECTORY",
            "STATE_DIRECTORY", "CACHE_DIRECTORY", "CONFIGURATION_DIRECTORY",
        ]
        var environment: [String: String] = [:]
        for name in names { environment[name] = getenv(name).map { String(cString: $0) } }
        return environment
    }
}
