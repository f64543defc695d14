import LarderClientCore
import LarderCommand
import LarderConfig
import LarderConfigSources
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol
import LarderServer
import LarderSettings
import LarderUpstream
import Logging
import NIOCore
import NIOPosix
import Glibc

/// `larderd --check-settings`: reads the settings and the files that they name, and reports all errors. A file
/// that is missing is an error if the settings that the agent saved last came from it, because the agent then uses the saved
/// ones. With `--for-reload`, the absence of all files is an error if the running agent has one, because it then refuses the
/// reload.
///
/// If root checks settings that the user of the packaged service may read, all files are read with the rights of that
/// user. The default settings are those of the service, so they are always checked like this.
struct SettingsCheck {
    /// The settings file; nil if it does not exist and the defaults apply.
    private(set) var path: String?
    /// The errors, one line each, with file, line and column if known.
    private(set) var errors: [String] = []
    /// Files that are not read because of their names, layer files that are missing, files that this user cannot read, and
    /// certificates that have expired. They are not errors, because the agent may be able to read them. With `--for-reload`, errors in the files that the
    /// settings name are also warnings, because a running agent applies the settings and keeps what it has read from these
    /// files.
    private(set) var warnings: [String] = []
    private(set) var plan: AgentPlan?
    /// The lines of the paths in the files of the settings.
    private var pathLines = PathLines()
    /// The files of the settings.
    private var files = SettingsFiles.none
    private let isForReload: Bool
    /// Whether files are read with the rights of the user `larder`. A file that this user cannot read is then an error.
    private var isAgentUser = false

    init(_ command: Larderd) async {
        path = AgentPlan.settingsPath(command)
        isForReload = command.forReload
        readAll(command)
        if path == nil, command.forReload, let plan { await checkAbsence(plan) }
    }

    /// Reads the settings, and the files that they name.
    private mutating func readAll(_ command: Larderd) {
        var user = ServiceUser.assume()
        defer { user?.resign() }
        if let root = user, let path, path != AgentPlan.defaultSettingsPath, !ServiceUser.mayRead(path) {
            root.resign()
            user = nil
        }
        isAgentUser = user != nil
        guard let settings = readSettings(command) else { return }
        // If there is no file at all, a reload depends on the running agent, which is asked later.
        if !isForReload || files != .none, let problem = AgentPlan.missingFileProblem(command, files) {
            errors.append("\(problem)")
        }
        do {
            plan = try AgentPlan(command, settings, path: path, pathLines: pathLines)
        } catch {
            errors.append("\(error)")
        }
        guard let plan else { return }
        for namespace in plan.namespaces { checkFiles(of: namespace) }
        for problem in plan.settings.report?.access.problems() ?? [] { add(problem, in: ["report"]) }
        for (name, origin) in plan.settings.images.origins.sorted(by: { $0.key < $1.key }) {
            for problem in origin.access.problems() { add(problem, in: ["images", "origins", name]) }
        }
    }

    /// Reads the settings, and adds their errors.
    /// - Returns: nil if the file cannot be read
    private mutating func readSettings(_ command: Larderd) -> Settings? {
        guard let path else { return Settings() }
        warnAboutIgnored(LayerProblem.ignoredFiles(in: Settings.directory(beside: path)))
        do throws(SettingsError) {
            let examination = try Settings.examine(file: path, host: AgentPlan.host)
            errors = examination.errors.map(\.description)
            pathLines = examination.pathLines
            files = examination.isPresent ? .main : .directory
            return examination.settings
        } catch {
            // The settings file need not exist at the default path.
            if command.settings == nil, error.code == .fileNotFound {
                self.path = nil
                return Settings()
            }
            errors.append(error.description)
            return nil
        }
    }

    private mutating func checkFiles(of namespace: NamespaceConfiguration) {
        let section = ["namespaces", namespace.name]
        for problem in namespace.examineFiles() {
            let isDenied = problem.error.code == .permissionDenied
            let place = problem.error.line == nil ? place(ofPath: problem.error.path, in: section) : ""
            let text = problem.error.description + place
            if isDenied ? !isAgentUser : problem.isCircumstance {
                warnings.append("not checked: \(text)")
            } else {
                add(text)
            }
        }
        warnAboutIgnored(namespace.ignoredFiles())
        for finding in namespace.examineSchema() {
            switch finding.kind {
            case .unchecked where !isAgentUser: warnings.append("not checked: \(finding.text)")
            case .warning: warnings.append(finding.text)
            case .error, .unchecked: add(finding.text)
            }
        }
        for problem in namespace.remote?.accessProblems() ?? [] { add(problem, in: section) }
    }

    private mutating func warnAboutIgnored(_ paths: [String]) {
        warnings += paths.map { path in
            "not read: \(path): its name ends with neither .json nor .json5; rename it, or move it elsewhere"
        }
    }

    private mutating func add(_ problem: AccessProblem, in section: [String]) {
        let text = problem.description + place(ofPath: problem.path, in: section)
        if problem.isExpiry {
            warnings.append(text)
        } else if problem.isDenied, !isAgentUser {
            warnings.append("not checked: \(text)")
        } else {
            add(text)
        }
    }

    /// Where the settings name a file, for an error; empty if they do not contain its path.
    private func place(ofPath path: String, in section: [String]) -> String {
        plan?.place(ofPath: path, in: section).map { " (named in \($0))" } ?? ""
    }

    /// Adds an error of a file that the settings name.
    private mutating func add(_ error: String) {
        if isForReload { warnings.append(error) } else { errors.append(error) }
    }

    /// Adds an error unless the running agent has no settings file, either.
    private mutating func checkAbsence(_ plan: AgentPlan) async {
        do {
            var configuration = LarderClient.Configuration()
            configuration.timeout = .seconds(5)
            let info = try await LarderClient.withConnection(
                socket: plan.socketPath.get(), configuration: configuration
            ) { client in try await client.call(AgentInfo.self, NoParameters()) }
            guard let path = info.settings else { return }
            // If the agent was started with --settings, its file may exist, and a restart would not use the defaults.
            let isDefault = AgentPlan.defaultSettingsPath.map { path.isSpelled(as: $0) } ?? false
            errors.append(
                isDefault
                    ? "\(SettingsFiles.missing(path))"
                    : "the agent was started with another settings file; pass it here, too: --settings \(path.shellWord)"
            )
        } catch {
            errors.append(
                "there is no settings file, and the agent does not say whether it was started with one: \(error); "
                    + "restore the file, or create it with the content {} for the default settings")
        }
    }

    /// `larderd --show-settings`: prints the merged settings as a JSON array, for `larder info --settings`. Exits with an
    /// error status if the settings are invalid.
    static func show(_ command: Larderd) {
        guard let path = AgentPlan.settingsPath(command) else { return print("[]") }
        do throws(SettingsError) {
            let examination = try Settings.examine(file: path, host: AgentPlan.host)
            for error in examination.errors { Process.note(error.description) }
            if !examination.errors.isEmpty { exit(EX_CONFIG) }
            let settings = examination.origins.map { origin -> JSONValue in
                var members: [(String, JSONValue)] = [("setting", .string(origin.name))]
                if let value = origin.value { members.append(("value", value)) }
                return .object(
                    members + [("file", .string(absolutePath(origin.file))), ("line", .int(origin.line))])
            }
            print(JSONValue.array(settings).compactText)
        } catch {
            // The settings file need not exist at the default path.
            if command.settings == nil, error.code == .fileNotFound { return print("[]") }
            Process.fail(error, status: EX_CONFIG)
        }
    }

    /// `larderd --test-proxies`: asks the proxies of valid settings for tunnels to the servers of sources and of image
    /// origins, and prints the results as a JSON array, for `larder doctor`.
    static func testProxies(_ command: Larderd) async throws {
        let plan = try AgentPlan(command)
        // Many namespaces may have the same server, for which one tunnel is enough.
        var requests: [(setting: String, proxy: ProxySettings, origin: String?)] = []
        func add(_ setting: String, _ proxy: ProxySettings, _ origin: String?) {
            if requests.contains(where: { $0.proxy == proxy && $0.origin == origin }) { return }
            requests.append((setting, proxy, origin))
        }
        for namespace in plan.namespaces {
            guard let (proxy, urls) = namespace.remote?.proxied else { continue }
            for url in urls.compactMap({ try? FetchURL(parsing: $0) }) {
                add("namespaces.\(namespace.name).remote", proxy, url.origin)
            }
        }
        let images = plan.settings.images
        for (name, origin) in images.origins.sorted(by: { $0.key < $1.key }) {
            guard let proxy = origin.access.proxy.inheriting(images.proxy).settings else { continue }
            add("images.origins[\"\(name)\"]", proxy, name)
        }
        // Images come from any host, so only the proxy itself is known.
        if let proxy = images.proxy { add("proxy", proxy, nil) }
        let threads = NIOThreadPool(numberOfThreads: 4)
        threads.start()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let resolver = SystemResolver(threads)
        let results = await withTaskGroup(of: (Int, ProxyTest?).self) { tasks in
            for (index, request) in requests.enumerated() {
                tasks.addTask {
                    (index, await ProxyTest.run(request.proxy, for: request.origin, resolver: resolver, on: group))
                }
            }
            return await tasks.reduce(into: [Int: ProxyTest]()) { $0[$1.0] = $1.1 }
        }
        try? await group.shutdownGracefully()
        try? await threads.shutdownGracefully()
        // Proxies that differ only in noProxy or in the password have the same result twice.
        var tests: [(setting: String, test: ProxyTest, isFromEnvironment: Bool)] = []
        for (index, request) in requests.enumerated() {
            guard let test = results[index], !tests.contains(where: { $0.test == test }) else { continue }
            tests.append((request.setting, test, request.proxy.isFromEnvironment))
        }
        let values = tests.map { setting, test, isFromEnvironment in
            var members: [(String, JSONValue)] = [("setting", .string(setting)), ("proxy", .string(test.proxy))]
            if let target = test.target { members.append(("target", .string(target))) }
            if let problem = test.problem { members.append(("problem", .string(problem))) }
            if test.isUntested { members.append(("untested", true)) }
            if isFromEnvironment { members.append(("environment", true)) }
            return JSONValue.object(members)
        }
        print(JSONValue.array(values).compactText)
    }

    /// Prints the result. Exits with an error status if there are errors.
    func report() {
        for warning in warnings { Process.note("warning: \(warning)") }
        if !errors.isEmpty {
            for error in errors { Process.note(error) }
            exit(EX_CONFIG)
        }
        guard let plan else { return }
        // An account that does not exist on this host is only a warning, which is logged to standard error.
        Process.startLogging(level: .warning)
        let logger = Logger(label: "larderd")
        _ = plan.settings.accessRules(isForHost: geteuid() == 0, logger: logger)
        _ = try? plan.settings.images.cacheSettings(directory: plan.imageDirectory ?? "", logger: logger)
        switch files {
        case .none: print("there is no settings file; the default settings are valid")
        case .directory:
            let directory = Settings.directory(beside: path ?? "")
            print("\(directory.printable): valid; there is no \((path ?? "").printable)")
        case .main: print("\((path ?? "").printable): valid")
        }
    }
}
