import LarderConfig
import LarderConfigSources
import LarderServer
import LarderSettings
import Logging
import Glibc

/// `larderd --check-settings`: reads the settings and every file of the layers, and reports everything that is wrong.
struct SettingsCheck {
    /// The settings file; nil if the defaults are in force.
    private(set) var path: String?
    /// Each error in one line, with file, line and column if it has them.
    private(set) var errors: [String] = []
    /// Files that are missing, or that this user may not read: they may be right for the agent. Before a reload also files of
    /// layers with errors: the agent keeps what the layer had before.
    private(set) var warnings: [String] = []
    private(set) var plan: AgentPlan?

    init(_ command: Larderd) {
        path = AgentPlan.settingsPath(command)
        var settings: Settings? = Settings()
        do throws(SettingsError) {
            if let path {
                let examination = try Settings.examine(file: path)
                settings = examination.settings
                errors = examination.errors.map(\.description)
            }
        } catch {
            // The usual file need not be there.
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

    /// Prints what was found, and ends the process if it is wrong.
    func report() {
        for warning in warnings { Process.note("warning: \(warning)") }
        if !errors.isEmpty {
            for error in errors { Process.note(error) }
            exit(EX_CONFIG)
        }
        guard let plan else { return }
        // Valid settings may name accounts that the host does not have. These are warnings on standard error.
        Process.startLogging(level: .warning)
        let logger = Logger(label: "larderd")
        _ = plan.settings.accessRules(isForHost: geteuid() == 0, logger: logger)
        _ = try? plan.settings.images.cacheSettings(directory: plan.imageDirectory ?? "", logger: logger)
        print("\(path ?? "no settings file; the defaults"): right")
    }
}
