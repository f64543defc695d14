import LarderClientCore
import LarderCommand
import LarderConfig
import LarderConfigSources
import LarderServer
import LarderSettings
import Logging
import Glibc

/// `larderd --check-settings`: reads the settings and the files of all layers, and reports all errors. With
/// `--for-reload`, a missing settings file is an error if the running agent has one, because the agent then refuses the
/// reload.
struct SettingsCheck {
    /// The settings file; nil if it does not exist and the defaults apply.
    private(set) var path: String?
    /// The errors, one line each, with file, line and column if known.
    private(set) var errors: [String] = []
    /// Files that are missing or that this user cannot read. They are not errors, because the agent may be able to read
    /// them. With `--for-reload`, errors in layer files are also warnings, because a running agent keeps the last valid
    /// content of the layer.
    private(set) var warnings: [String] = []
    private(set) var plan: AgentPlan?

    init(_ command: Larderd) async {
        path = AgentPlan.settingsPath(command)
        var settings: Settings? = Settings()
        do throws(SettingsError) {
            if let path {
                let examination = try Settings.examine(file: path)
                settings = examination.settings
                errors = examination.errors.map(\.description)
            }
        } catch {
            // The settings file need not exist at the default path.
            if command.settings == nil, error.code == .fileNotFound {
                path = nil
            } else {
                settings = nil
                errors.append(error.description)
            }
        }
        guard let settings else { return }
        do {
            plan = try AgentPlan(command, settings, path: path)
        } catch {
            errors.append("\(error)")
        }
        if path == nil, command.forReload, let plan { await checkAbsence(plan) }
        for problem in plan?.namespaces.flatMap({ $0.examineFiles() }) ?? [] {
            if problem.isCircumstance {
                warnings.append("not checked: \(problem.error)")
            } else if command.forReload {
                warnings.append(problem.error.description)
            } else {
                errors.append(problem.error.description)
            }
        }
    }

    /// Adds an error unless the running agent has no settings file, either.
    private mutating func checkAbsence(_ plan: AgentPlan) async {
        do {
            var configuration = LarderClient.Configuration()
            configuration.timeout = .seconds(5)
            let info = try await LarderClient.withConnection(
                socket: plan.socketPath.get(), configuration: configuration
            ) { client in try await client.agent.info() }
            if let path = info.settings { errors.append("\(AgentPlan.missing(path))") }
        } catch {
            errors.append(
                "there is no settings file, and the agent does not say whether it was started with one: \(error); "
                    + "restore the file, or restart the agent to run it with the default settings")
        }
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
        print(path.map { "\($0.printable): valid" } ?? "there is no settings file; the default settings are valid")
    }
}
