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
    /// The time of the last modification.
    var modifiedAt: Timestamp?
    /// Why files in `larder.d` and in the directories of the layers are not read: one line for each file.
    var ignoredFiles: [String] = []
    /// The proxies in the settings.
    var proxies: [ProxyFacts] = []
    /// The user that the agent runs as, if that user may not read the file.
    var deniedUser: DeniedUser?

    /// Whether the check has found an error in the file itself or in `larder.d` beside it, not only in the files that it names.
    var isInvalid: Bool {
        guard case .wrong(let lines) = state else { return false }
        let directory = Self.directory(beside: path)
        return lines.contains { line in
            line.hasPrefix("\(path):") || line.hasPrefix("\(directory)/") || line.hasPrefix("\(directory):")
        }
    }

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
    ///   - inForce: the settings file in use, as the agent reports it; nil if unknown.
    ///   - isRunning: whether the agent replied.
    ///   - agentUser: the user that the agent runs as; nil if unknown.
    ///   - choice: how the socket of the agent was chosen. If the user chose it, the default settings file of that
    ///     agent is unknown.
    /// - Returns: nil if it is not known which file to check.
    static func probe(
        option: String?, inForce: String?, isRunning: Bool, agentUser: AgentUser?, choice: SocketFacts.Choice
    ) async -> SettingsFacts? {
        let standard = defaultPath(
            choice, mayBeUsers: !isRunning && geteuid() != 0, userFile: userFile, exists: { access($0, F_OK) == 0 })
        guard let path = option ?? inForce ?? standard else { return nil }
        var facts = SettingsFacts(path: path, isNamed: option != nil, state: .missing)
        let patches = patches(beside: path)
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == EACCES { facts.state = .unreadable }
            if errno == ENOENT, !patches.isEmpty {
                facts.modifiedAt = lastChange(of: patches)
                (facts.state, facts.ignoredFiles) = await check(path)
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
        (facts.state, facts.ignoredFiles) = await check(path)
        if facts.state == .right { facts.proxies = await ProxyFacts.probe(path) }
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

    private static func check(_ path: String) async -> (State, ignoredFiles: [String]) {
        guard let agent = agentProgram else { return (.unchecked("there is no larderd on this host"), []) }
        // Pass directories that exist, so that larderd creates none. With `--check-settings`, larderd does not check
        // these directories.
        let elsewhere = ["--state-directory", "/", "--cache-directory", "/"]
        let words = [agent, "--check-settings", "--settings", path] + elsewhere
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

    /// The default settings file of an agent; nil if it is unknown.
    /// - Parameters:
    ///   - mayBeUsers: whether the user may mean an agent of their own: no agent replied, and the user is not root.
    ///   - userFile: the settings file of the user's own agent; nil if unknown.
    static func defaultPath(
        _ choice: SocketFacts.Choice, mayBeUsers: Bool, userFile: String?, exists: (String) -> Bool
    ) -> String? {
        let systemFile = "/etc/larder/larder.json"
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

/// A proxy in the settings, and whether this host can connect to it.
struct ProxyFacts: Sendable, Equatable {
    /// The host and port, as in the URL.
    var place: String
    /// Where the settings name the proxy: `FILE:LINE`.
    var origin: String
    /// Why no connection could be opened; nil if one was.
    var problem: String?
}

extension ProxyFacts {
    /// Connects to each proxy that valid settings name. Sends nothing.
    static func probe(_ settings: String) async -> [ProxyFacts] {
        guard let list = try? await SettingsFacts.merged(settings) else { return [] }
        var proxies: [ProxyFacts] = []
        for setting in list.elements {
            // A URL with a placeholder is not complete here.
            guard let name = setting["setting"]?.string, name == "proxy.url" || name.hasSuffix(".proxy.url"),
                let url = setting["value"]?.string, !url.contains("{"), let (host, port) = address(url)
            else { continue }
            let place = (host.contains(":") ? "[\(host)]" : host) + ":\(port)"
            if proxies.contains(where: { $0.place == place }) { continue }
            let origin = "\(setting["file"]?.string ?? ""):\(setting["line"]?.int ?? 1)"
            let problem = await onOwnThread { Self.problem(host, port) }
            proxies.append(ProxyFacts(place: place, origin: origin, problem: problem))
        }
        return proxies
    }

    /// The host and port of a valid URL of a proxy.
    static func address(_ url: String) -> (host: String, port: Int)? {
        guard url.lowercased().hasPrefix("http://") else { return nil }
        let authority = url.dropFirst("http://".count).prefix { $0 != "/" }
        let end = authority.lastIndex(of: "]").map(authority.index(after:)) ?? authority.firstIndex(of: ":")
        let host = authority[..<(end ?? authority.endIndex)].filter { $0 != "[" && $0 != "]" }
        let digits = authority[(end ?? authority.endIndex)...].dropFirst()
        guard let port = digits.isEmpty ? 80 : Int(digits), !host.isEmpty else { return nil }
        return (String(host), port)
    }

    /// The time for a connection to one address, in milliseconds.
    private static let timeout: CInt = 5000

    /// Why no connection can be opened; nil if it can. Blocks the thread.
    private static func problem(_ host: String, _ port: Int) -> String? {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0 else { return "its name does not resolve" }
        defer { freeaddrinfo(list) }
        var problem: String?
        var next = list
        while let entry = next {
            let failure = connectionFailure(entry.pointee)
            if failure == 0 { return nil }
            problem = String(cString: strerror(failure))
            next = entry.pointee.ai_next
        }
        return problem
    }

    /// The error of a connection to an address (connect(2)); 0 if it was opened.
    private static func connectionFailure(_ entry: addrinfo) -> CInt {
        let flags = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(entry.ai_family, flags, 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        if connect(descriptor, entry.ai_addr, entry.ai_addrlen) == 0 { return 0 }
        guard errno == EINPROGRESS else { return errno }
        var output = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        let ready = uninterrupted { poll(&output, 1, timeout) }
        guard ready > 0 else { return ready == 0 ? ETIMEDOUT : errno }
        var (failure, size): (CInt, socklen_t) = (0, socklen_t(MemoryLayout<CInt>.size))
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 else { return errno }
        return failure
    }
}
