import Glibc
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
    /// Who the agent runs as, where that user may not read the file.
    var hindered: Hindered?

    /// A user who may not read it.
    struct Hindered: Sendable, Equatable {
        var userName: String
        /// The user's group.
        var groupName: String
        /// The file's owner, group and mode: `root:root 0600`.
        var permissions: String
    }
}

extension SettingsFacts {
    /// Has the file checked by the agent's own program.
    /// - Parameters:
    ///   - option: what `--settings` says.
    ///   - inForce: the file that the agent says it runs with.
    ///   - agentUser: who the agent runs as, where that is known.
    ///   - choice: which agent it is; where somebody named its socket, nobody knows where its settings are.
    /// - Returns: nil where it is not known which file to look at.
    static func look(option: String?, inForce: String?, agentUser: AgentUser?, choice: SocketFacts.Choice) async
        -> SettingsFacts?
    {
        guard let path = option ?? inForce ?? defaultPath(choice) else { return nil }
        var facts = SettingsFacts(path: path, isNamed: option != nil, state: .missing)
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == EACCES { facts.state = .unreadable }
            return facts
        }
        facts.modifiedAt = Timestamp(
            milliseconds: status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1_000_000)
        // A file that is only to be checked may be where the agent does not look.
        if let agentUser, option == nil || option == inForce, await agentUser.mayRead(path) == false {
            let mode = String(status.st_mode & 0o7777, radix: 8)
            facts.hindered = Hindered(
                userName: Accounts.name(ofUser: agentUser.user), groupName: Accounts.name(ofGroup: agentUser.group),
                permissions: "\(Accounts.name(ofUser: status.st_uid)):\(Accounts.name(ofGroup: status.st_gid)) 0\(mode)"
            )
        }
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
        // A machine in trouble is slow to start a program, and it is looked at because it is in trouble.
        guard let check = await CapturedProgram.run(words, limit: .seconds(20)) else {
            return .unchecked("\(agent) cannot be run, or does not answer")
        }
        switch check.end {
        case .exited(0): return .right
        case .exited(78):
            let lines = check.lines.map { $0.hasPrefix("larderd: ") ? String($0.dropFirst(9)) : $0 }
            return .wrong(lines.filter { !$0.hasPrefix("warning: ") })
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
