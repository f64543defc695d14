import LarderConfig
import LarderConfigSources
import LarderImages
import LarderPlatform
import LarderServer
import LarderSettings
import LarderSystemd
import LarderProtocol
import Logging
import Glibc

/// The effective configuration of the agent. The command line overrides the settings file, which overrides the default
/// paths.
struct AgentPlan: Sendable {
    /// The absolute path of the settings file, because it is shown to clients; nil if the agent runs without one, and
    /// without files in `larder.d` beside its path.
    var settingsPath: String?
    /// The files that ``settings`` come from.
    private var files = SettingsFiles.none
    var settings: Settings
    /// When the settings were read. Later changes of the file are not included.
    private(set) var settingsReadAt = Timestamp(milliseconds: WallClock.system.now)
    /// The text of the settings; that of an empty object if there is no file.
    private var settingsText = Array("{}".utf8)
    /// Why the settings file cannot be used, so that ``settings`` are those that were saved last; nil if ``settings`` are
    /// those of the file.
    private(set) var settingsProblem: String?
    /// The path of the socket; a failure if there is no default path. Not used if systemd passed a socket.
    var socketPath: Result<String, SettingsError>
    var stateDirectory: String
    /// The directory of the images; nil if the settings disable the image cache.
    var imageDirectory: String?
    var logLevel: Logger.Level
    var namespaces: [NamespaceConfiguration]
    private let command: Larderd
    /// The lines of the paths in the files of the settings.
    private let pathLines: PathLines

    /// Reads the settings and combines them with the command line.
    /// - Throws: an error whose text is one line that says what to do
    init(_ command: Larderd) throws {
        let path = Self.settingsPath(command)
        let found: Settings.File?
        do throws(SettingsError) {
            found = if let path { try Settings.load(from: path, host: Self.host) } else { nil }
        } catch {
            // The settings file need not exist at the default path.
            guard command.settings == nil, error.code == .fileNotFound else { throw error }
            found = nil
        }
        try self.init(
            command, found?.settings ?? Settings(), path: found == nil ? nil : path,
            pathLines: found?.pathLines ?? PathLines())
        if let found {
            settingsText = found.text
            files = found.isPresent ? .main : .directory
        }
    }

    /// Reads the settings for the start of the agent. If they are invalid, or if a file is missing that the saved settings
    /// came from, returns those that the agent saved last, with the error in ``settingsProblem``.
    /// - Throws: the error of the settings if none are saved
    static func forStart(_ command: Larderd) throws -> AgentPlan {
        do {
            let plan = try AgentPlan(command)
            if let problem = missingFileProblem(command, plan.files) { throw problem }
            return plan
        } catch {
            guard var plan = saved(command) else { throw error }
            plan.settingsProblem = "\(error)"
            return plan
        }
    }

    /// The settings that the agent saved last; nil if none are saved, or if they are invalid.
    private static func saved(_ command: Larderd) -> AgentPlan? {
        guard let saved = savedSettings(command)?.read(),
            let settings = try? Settings(parsing: saved.text, areSaved: true, host: host),
            var plan = try? AgentPlan(command, settings, path: settingsPath(command))
        else { return nil }
        plan.settingsReadAt = saved.readAt
        plan.settingsText = saved.text
        plan.files = saved.files
        return plan
    }

    /// Why the agent does not start with settings that come from `files`: the saved ones came from a file that is missing.
    /// Nil if none is known to be missing, or if this process cannot read the saved settings.
    static func missingFileProblem(_ command: Larderd, _ files: SettingsFiles) -> AgentError? {
        guard let store = savedSettings(command), let saved = store.read() else { return nil }
        return files.problem(since: saved.files, at: store.settingsFile)
    }

    /// Saves the settings for a start at which the settings file is invalid. Blocks on disk I/O. Does nothing if these
    /// settings were saved before. After a failure, settings that were saved earlier stay, because a start with them is
    /// better than an outage.
    /// - Throws: an error whose text includes the effect of a restart with an invalid settings file
    func save() throws {
        if settingsProblem != nil { return }
        do {
            try Self.savedSettings(command)?.write(settingsText, readAt: settingsReadAt, from: files)
        } catch {
            let outcome = Self.saved(command).map { "use the settings read at \($0.settingsReadAt)" } ?? "fail"
            throw AgentError("a restart with an invalid settings file would \(outcome): \(error)")
        }
    }

    /// The saved settings. They are in the directory that the options or the environment determine, because the setting
    /// `state.directory` is unknown while the settings file is invalid. Nil if there is no such directory, or no path
    /// of a settings file.
    private static func savedSettings(_ command: Larderd) -> SavedSettings? {
        let paths = DefaultPaths(environment: environment, userID: getuid())
        guard let directory = command.stateDirectory.map(absolutePath) ?? (try? paths.stateDirectory),
            let file = settingsPath(command)
        else { return nil }
        return SavedSettings(directory: directory, settingsFile: absolutePath(file))
    }

    /// The path of the settings file: the one from the command line, or the default path, at which there need not be a
    /// file. Nil if there is no default path.
    static func settingsPath(_ command: Larderd) -> String? {
        command.settings ?? defaultSettingsPath
    }

    /// The values of the placeholders in the settings.
    static var host: HostFacts { HostFacts(id: HostID.text) }

    /// The default path of the settings file; nil if the environment does not determine one.
    static var defaultSettingsPath: String? {
        try? DefaultPaths(environment: environment, userID: getuid()).settingsFile
    }

    /// Combines settings with the command line.
    /// - Parameters:
    ///   - path: the file of the settings; nil for default settings
    ///   - pathLines: the lines of the paths in the files of the settings, for messages
    init(_ command: Larderd, _ settings: Settings, path: String?, pathLines: PathLines = PathLines()) throws {
        self.command = command
        self.settings = settings
        settingsPath = path.map(absolutePath)
        let paths = DefaultPaths(environment: Self.environment, userID: getuid())
        socketPath = Result { () throws(SettingsError) in
            if let path = command.socket.map(absolutePath) ?? settings.socket.path { return path }
            return try paths.socket
        }
        stateDirectory =
            try command.stateDirectory.map(absolutePath) ?? settings.stateDirectory ?? paths.stateDirectory
        if settings.images.isEnabled {
            let cache = try command.cacheDirectory.map(absolutePath) ?? settings.cacheDirectory ?? paths.cacheDirectory
            imageDirectory = cache + "/images"
        }
        logLevel = command.logLevel ?? settings.logLevel
        let hostDirectory = command.settings.map(Self.directoryBeside) ?? (try? paths.hostLayerDirectory)
        self.pathLines = pathLines
        namespaces = Self.namespaces(settings, settingsPath, hostDirectory: hostDirectory)
        for index in namespaces.indices {
            guard let path = namespaces[index].schema?.path else { continue }
            let place = place(ofPath: path, in: ["namespaces", namespaces[index].name, "schema"])
            namespaces[index].schema?.place = place
        }
    }

    var settingsSource: ServerContext.SettingsSource {
        ServerContext.SettingsSource(path: settingsPath, readAt: settingsReadAt, problem: settingsProblem)
    }

    /// The limits of connections in effect. Some descriptors of the process are reserved for files and sources. If
    /// clients used all descriptors, the agent could neither write a change to disk nor fetch from a source.
    var limits: ConnectionLimits {
        var limits = settings.limits
        // Each download of an image needs a socket and a file. Files whose descriptors are passed to clients are open
        // too. If descriptors are scarce, connections take precedence, because an image can be requested again.
        let images =
            imageDirectory == nil ? 0 : min(256 + 2 * settings.images.downloadLimits.total, Process.descriptorLimit / 4)
        let possible = max(1, Process.descriptorLimit - descriptorsOfNamespaces - images)
        limits.isBoundByDescriptors = possible < limits.connections
        limits.connections = min(limits.connections, possible)
        return limits
    }

    /// The descriptors reserved for the event loops, the disk work and the namespaces. Each namespace has its journal and
    /// the file of its snapshot, and up to two connections to a remote source.
    private var descriptorsOfNamespaces: Int {
        64
            + namespaces.reduce(0) { count, namespace in
                switch namespace.remote {
                case nil, .file?: count + 2
                case .http?, .sse?, .etcd?: count + 4
                }
            }
    }

    /// Checks that the limit of open files leaves descriptors for some connections.
    /// - Throws: an error that says how to raise the limit
    func checkDescriptors() throws(AgentError) {
        let needed = descriptorsOfNamespaces + 16
        guard needed > Process.descriptorLimit else { return }
        throw AgentError(
            """
            \(namespaces.count) namespaces need \(needed) open files, but the limit is \(Process.descriptorLimit); raise \
            it with LimitNOFILE= in the unit or with ulimit -n, then restart the agent
            """)
    }

    /// Logs a warning if the limit of open files lowers the maximum number of connections.
    func warnOfDescriptorLimit(_ logger: Logger) {
        let limits = limits
        guard limits.isBoundByDescriptors else { return }
        logger.warning(
            """
            the limit of open files allows fewer connections than limits.connections; raise it with LimitNOFILE= in the \
            unit or with ulimit -n
            """,
            metadata: ["connections": "\(limits.connections)", "descriptors": "\(Process.descriptorLimit)"])
    }

    /// Reads the settings file again.
    /// - Throws: an error if the settings are invalid, or if a file is missing that the settings in force came from
    func reread() throws -> AgentPlan {
        let next = try AgentPlan(command)
        if let settingsPath, let problem = next.files.problem(since: files, at: settingsPath) { throw problem }
        return next
    }

    /// The namespaces in the settings. `hostDirectory` is the default directory for the host layer of the namespace
    /// `default`.
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

    /// The place of a path in the settings, as `FILE:LINE`; nil if the settings do not contain the path.
    /// - Parameter section: the section whose occurrence of the path is preferred
    func place(ofPath path: String, in section: [String]) -> String? {
        pathLines.place(of: path, in: section).map { "\(absolutePath($0.file)):\($0.line)" }
    }

    /// The default directory of the `host` layer if the command line names the settings file: `config.d` next to that
    /// file.
    private static func directoryBeside(_ settings: String) -> String {
        let path = absolutePath(settings)
        return "\(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])/config.d"
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
