import Glibc
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol

/// The settings file, and the result of checking it with the agent's program (`larderd --check-settings`).
struct SettingsFacts: Sendable, Equatable {
    /// The result of checking the settings file.
    enum State: Sendable, Equatable {
        case missing
        /// The user of this process may not read the file.
        case unreadable
        case right
        /// The file is invalid. The lines describe the errors.
        case wrong([String])
        /// The file could not be checked, for this reason.
        case unchecked(String)
    }

    var path: String
    /// Whether `--settings` on the command line names the file.
    var isNamed: Bool
    var state: State
    /// Whether the file exists. If not, ``state`` can still be that of the files in `larder.d`.
    var exists = true
    /// The time of the last modification.
    var modifiedAt: Timestamp?
    /// Why files in `larder.d` and in the directories of the layers are not read: one line for each file.
    var ignoredFiles: [String] = []
    /// The proxies of valid settings.
    var proxies: [ProxyFacts] = []
    /// The user that the agent runs as, if that user may not read the file.
    var deniedUser: DeniedUser?

    /// Whether the check has found an error in the file itself or in `larder.d` beside it, not only in the files that it names.
    var isInvalid: Bool {
        guard case .wrong(let lines) = state else { return false }
        return lines.contains { line in
            line.hasPrefix("\(path):") || line.hasPrefix("\(directory)/") || line.hasPrefix("\(directory):")
        }
    }

    /// The directory `larder.d` beside the file.
    var directory: String { Self.directory(beside: path) }

    /// Whether the check has found an error in a file that the settings name.
    func reports(_ file: String?) -> Bool {
        guard let file, case .wrong(let lines) = state else { return false }
        return lines.contains { $0.hasPrefix("\(file):") || $0.hasPrefix("\(file)#") }
    }

    /// Whether an agent without earlier settings cannot start with the file.
    var preventsStart: Bool { isInvalid || deniedUser != nil }

    /// A user who may not read the file.
    struct DeniedUser: Sendable, Equatable {
        var userName: String
        /// The primary group that the agent runs with, not the group of the file, as chgrp(1) takes it: its name, or
        /// its ID if it has no name.
        var group: String
        /// The owner, group and mode of ``closedDirectory``, else of the file: `root:root 0600`.
        var permissions: String
        /// The first directory above the file that the user may not enter; nil if the file itself denies access.
        var closedDirectory: ClosedDirectory?
    }

    /// A directory that the user may not enter.
    struct ClosedDirectory: Sendable, Equatable {
        var path: String
        /// The argument of chmod(1) that lets the user enter it: `u+x` for its owner, `g+x` for members of its group,
        /// else `o+x`.
        var modeChange: String
    }
}

extension SettingsFacts {
    /// Checks the file with the agent's own program.
    /// - Parameters:
    ///   - option: the value of `--settings`.
    ///   - agentUser: the user that the agent runs as; nil if unknown.
    ///   - agent: the reply of `agent.info`; nil if the agent did not reply.
    ///   - choice: how the socket of the agent was chosen. If the user chose it, the default settings file of that
    ///     agent is unknown.
    /// - Returns: nil if it is not known which file to check.
    static func probe(
        option: String?, agent: AgentInfo.Result?, agentUser: AgentUser?, choice: SocketFacts.Choice
    ) async -> SettingsFacts? {
        let inForce = agent?.settings
        let standard = defaultPath(
            choice, mayBeUsers: agent == nil && geteuid() != 0, userFile: userFile, exists: { access($0, F_OK) == 0 })
        guard let path = option ?? inForce ?? standard else { return nil }
        var facts = SettingsFacts(path: path, isNamed: option != nil, state: .missing)
        let patches = patches(beside: path)
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == EACCES { facts.state = .unreadable }
            facts.exists = errno != ENOENT
            if !facts.exists, !patches.isEmpty {
                facts.modifiedAt = lastChange(of: patches)
                (facts.state, facts.ignoredFiles) = await check(path, agent)
            } else if !facts.exists, path == systemFile, geteuid() == 0 {
                // Without `--settings`, larderd accepts that its default file does not exist.
                facts.ignoredFiles = await check(nil, agent).ignoredFiles
            }
            return facts
        }
        facts.modifiedAt = lastChange(of: [path] + patches)
        // Check the access of the agent's user if the file is the one that the agent uses. If `--settings` names
        // another file, the agent does not have to be able to read it.
        if let agentUser, option == nil || option == inForce, await agentUser.mayRead(path) == false {
            facts.deniedUser = await deniedUser(agentUser, path, status)
        }
        guard faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 else {
            facts.state = .unreadable
            return facts
        }
        (facts.state, facts.ignoredFiles) = await check(path, agent)
        if facts.state == .right, let agentProgram {
            facts.proxies = await ProxyFacts.probe(
                path, agent: agentProgram, environment: ProxyFacts.environment(ofAgent: agent?.pid))
        }
        return facts
    }

    private static func deniedUser(_ user: AgentUser, _ path: String, _ file: stat) async -> DeniedUser {
        var status = file
        var denied = DeniedUser(
            userName: Accounts.name(ofUser: user.user),
            group: AccountName.ofGroup(user.group) ?? String(user.group), permissions: "")
        if let directory = await user.closedDirectory(above: path), stat(directory, &status) == 0 {
            let change = user.classOfPermissions(owner: status.st_uid, group: status.st_gid) + "+x"
            denied.closedDirectory = ClosedDirectory(path: directory, modeChange: change)
        }
        let mode = String(status.st_mode & 0o7777, radix: 8)
        denied.permissions =
            "\(Accounts.name(ofUser: status.st_uid)):\(Accounts.name(ofGroup: status.st_gid)) 0\(mode)"
        return denied
    }

    /// The directory `larder.d`, whose files are merged over a settings file.
    private static func directory(beside path: String) -> String {
        "\(path.lastIndex(of: "/").map { path[...$0] } ?? "")larder.d"
    }

    /// The files of `larder.d`, and the directory itself if it has files, because removing a file changes only the
    /// directory.
    private static func patches(beside path: String) -> [String] {
        let directory = directory(beside: path)
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0, let names = try? DirectoryListing.names(closing: descriptor) else { return [] }
        let files = names.map { String(decoding: $0, as: UTF8.self) }.filter { name in
            !name.hasPrefix(".") && (name.hasSuffix(".json") || name.hasSuffix(".json5"))
        }
        return files.isEmpty ? [] : [directory] + files.map { "\(directory)/\($0)" }
    }

    private static func lastChange(of paths: [String]) -> Timestamp? {
        paths.compactMap { path -> Timestamp? in
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            return Timestamp(milliseconds: status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1_000_000)
        }.max()
    }

    /// Merges a settings file and `larder.d` beside it with the agent's own program.
    /// - Returns: an array of objects with `setting`, `value` (absent for a header field), `file` and `line`
    /// - Throws: ``Failure`` with the errors of the settings
    static func merged(_ path: String) async throws(Failure) -> JSONValue {
        guard let agent = agentProgram else {
            throw Failure(.failure, "there is no larderd on this host; run this command on the host of the agent")
        }
        let words = [agent, "--show-settings", "--settings", path]
        guard let program = await CapturedProgram.run(words, limit: .seconds(20)) else {
            throw Failure(
                .failure,
                "\(agent) cannot be run or did not end in time; run \(words.map(\.shellWord).joined(separator: " "))")
        }
        guard program.end == .exited(0), let list = try? JSONValue(parsing: program.text) else {
            throw Failure(.failure, program.lines.joined(separator: "; "))
        }
        return list
    }

    /// Directories that exist, so that larderd creates none. With `--check-settings`, larderd does not check them.
    fileprivate static let otherDirectories = ["--state-directory", "/", "--cache-directory", "/"]

    /// - Parameters:
    ///   - path: the settings file; nil for the default file of larderd
    ///   - info: the reply of the agent, whose saved settings show whether a missing file was used before
    private static func check(_ path: String?, _ info: AgentInfo.Result?) async -> (State, ignoredFiles: [String]) {
        guard let agent = agentProgram else { return (.unchecked("there is no larderd on this host"), []) }
        let directories = info.map { ["--state-directory", $0.stateDirectory] + otherDirectories.suffix(2) }
        let words =
            [agent, "--check-settings"] + (path.map { ["--settings", $0] } ?? []) + (directories ?? otherDirectories)
        // The timeout is generous, because doctor is often used on a host that is overloaded.
        guard let check = await CapturedProgram.run(words, limit: .seconds(20)) else {
            return (.unchecked("\(agent) cannot be run or did not end in time"), [])
        }
        let lines = check.lines.map { $0.hasPrefix("larderd: ") ? String($0.dropFirst(9)) : $0 }
        let warning = "warning: not read: "
        let ignored = lines.filter { $0.hasPrefix(warning) }.map { String($0.dropFirst(warning.count)) }
        switch check.end {
        case .exited(0): return (.right, ignored)
        case .exited(78): return (.wrong(lines.filter { !$0.hasPrefix("warning: ") }), ignored)
        default: return (.unchecked("\(agent) ended with \(check.end.text)"), [])
        }
    }

    /// The path of larderd: next to this program (larder and larderd may be one file with two names), or where packages
    /// install it; nil if it is in neither place.
    private static var agentProgram: String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = readlink("/proc/self/exe", &buffer, buffer.count)
        let own = String(decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let directory = own.lastIndex(of: "/").map { own[..<$0] } ?? ""
        return ["\(directory)/larderd", "/usr/sbin/larderd", "/usr/local/sbin/larderd"].first { access($0, X_OK) == 0 }
    }

    private static let systemFile = "/etc/larder/larder.json"

    /// The default settings file of an agent; nil if it is unknown.
    /// - Parameters:
    ///   - mayBeUsers: whether the user may mean an agent of their own: no agent replied, and the user is not root.
    ///   - userFile: the settings file of the user's own agent; nil if unknown.
    static func defaultPath(
        _ choice: SocketFacts.Choice, mayBeUsers: Bool, userFile: String?, exists: (String) -> Bool
    ) -> String? {
        switch choice {
        case .option, .variable: return nil
        case .user: return userFile
        case .system:
            // The socket of the user's own agent is missing while that agent does not run.
            guard mayBeUsers, let userFile, !exists(systemFile), exists(userFile) else { return systemFile }
            return userFile
        }
    }

    private static var userFile: String? {
        func variable(_ name: String) -> String? {
            environmentVariable(name).flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        return (variable("XDG_CONFIG_HOME") ?? variable("HOME").map { "\($0)/.config" }).map {
            "\($0)/larder/larder.json"
        }
    }
}

/// A proxy of the settings, and whether it opens a tunnel.
struct ProxyFacts: Sendable, Equatable {
    /// The host and port.
    var place: String
    /// The host and port of the requested tunnel; nil if only a connection to the proxy was opened.
    var target: String?
    /// The setting that uses the proxy, such as `namespaces.shop.remote`.
    var setting: String
    /// The problem and the next step; nil if the test succeeded.
    var problem: String?
    /// Whether the test was impossible, for the reason in ``problem``.
    var isUntested = false
    /// Whether variables of the environment of this command name the proxy. The agent may have others.
    var isFromOwnEnvironment = false
}

extension ProxyFacts {
    /// Tests the proxies of valid settings with the agent's own program.
    /// - Parameter environment: the variables of the running agent that name proxies; nil if they cannot be read
    static func probe(_ settings: String, agent: String, environment: [String: String]?) async -> [ProxyFacts] {
        let words = [agent, "--test-proxies", "--settings", settings] + SettingsFacts.otherDirectories
        // A proxy has five seconds for the connection, and as long for its response.
        let program = await CapturedProgram.run(words, limit: .seconds(30), environment: environment ?? [:])
        guard let program, program.end == .exited(0), let list = try? JSONValue(parsing: program.text) else {
            return []
        }
        return list.elements.map { test in
            ProxyFacts(
                place: test["proxy"]?.string ?? "", target: test["target"]?.string,
                setting: test["setting"]?.string ?? "", problem: test["problem"]?.string,
                isUntested: test["untested"] == true,
                isFromOwnEnvironment: environment == nil && test["environment"] == true)
        }
    }

    /// The variables that name proxies. The agent reads the same ones.
    private static let variables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]

    /// The variables of a running agent that name proxies (`/proc/PID/environ`, proc(5)), empty ones if they are not set.
    /// Nil if they cannot be read, or if the process is not an agent.
    static func environment(ofAgent pid: Int?) -> [String: String]? {
        guard let pid, AgentProbe.command(of: pid) == "larderd",
            let bytes = try? Input.contents(of: "/proc/\(pid)/environ"), !bytes.isEmpty
        else { return nil }
        return environment(bytes)
    }

    static func environment(_ bytes: [UInt8]) -> [String: String] {
        var values = Dictionary(uniqueKeysWithValues: variables.map { ($0, "") })
        for entry in bytes.split(separator: 0) {
            let parts = entry.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(decoding: parts[0], as: UTF8.self)
            if parts.count == 2, values[name] != nil { values[name] = String(decoding: parts[1], as: UTF8.self) }
        }
        return values
    }
}
