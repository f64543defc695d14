import CLinuxShims

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif
import LarderClient

/// The settings file, and what the agent's own check says of it.
struct SettingsFacts: Sendable, Equatable {
    /// What is the matter with it.
    enum State: Sendable, Equatable {
        case missing
        /// This user may not read it.
        case unreadable
        case right
        /// With the lines that say why.
        case wrong([String])
        /// There is nothing that could check it, for this reason.
        case unchecked(String)
    }

    var path: String
    /// Whether the command line named it.
    var isNamed: Bool
    var state: State
    /// When it was changed last.
    var modifiedAt: Timestamp?
}

extension SettingsFacts {
    /// Has the file checked by the agent's own program.
    /// - Parameters:
    ///   - option: what `--settings` says.
    ///   - inForce: the file that the agent says it runs with.
    ///   - choice: which agent it is; where somebody named its socket, nobody knows where its settings are.
    /// - Returns: nil where it is not known which file to look at.
    static func look(option: String?, inForce: String?, choice: SocketFacts.Choice) async -> SettingsFacts? {
        guard let path = option ?? inForce ?? defaultPath(choice) else { return nil }
        var facts = SettingsFacts(path: path, isNamed: option != nil, state: .missing)
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == EACCES { facts.state = .unreadable }
            return facts
        }
        facts.modifiedAt = Timestamp(
            milliseconds: status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1_000_000)
        guard faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 else {
            facts.state = .unreadable
            return facts
        }
        facts.state = await check(path)
        return facts
    }

    private static func check(_ path: String) async -> State {
        guard let agent = agentProgram else { return .unchecked("there is no larderd here") }
        // The file alone is in question, not where the directories would be for whoever asks: the check makes none.
        let elsewhere = ["--state-directory", "/", "--cache-directory", "/"]
        let words = [agent, "--check-settings", "--settings", path] + elsewhere
        guard let check = await CapturedProgram.run(words) else {
            return .unchecked("\(agent) cannot be run, or does not answer")
        }
        switch check.end {
        case .exited(0): return .right
        case .exited(78): return .wrong(check.lines.map { $0.hasPrefix("larderd: ") ? String($0.dropFirst(9)) : $0 })
        default: return .unchecked("\(agent) ended with \(check.end.text)")
        }
    }

    /// The agent's program: beside this one, of which it may be the other name, or where the package has it.
    private static var agentProgram: String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = readlink("/proc/self/exe", &buffer, buffer.count)
        let own = String(decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let directory = own.lastIndex(of: "/").map { own[..<$0] } ?? ""
        return ["\(directory)/larderd", "/usr/sbin/larderd", "/usr/local/sbin/larderd"].first { access($0, X_OK) == 0 }
    }

    private static func defaultPath(_ choice: SocketFacts.Choice) -> String? {
        switch choice {
        case .system: return "/etc/larder/larder.json"
        case .option, .variable: return nil
        case .user: break
        }
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        return (variable("XDG_CONFIG_HOME") ?? variable("HOME").map { "\($0)/.config" }).map {
            "\($0)/larder/larder.json"
        }
    }
}
