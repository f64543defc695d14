import Glibc
import TestSupport

/// Connects to an agent as another user, through a socat process that runs as that user. Requires root.
enum OtherUser {
    /// The start of a command that runs a program as another user, whose group has the same number.
    static func command(_ user: Int) -> [String] {
        ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups", "--"]
    }

    /// - Parameters:
    ///   - group: The primary group; by default the group whose number is that of the user.
    ///   - groups: The supplementary groups.
    static func connect(
        _ user: Int, group: Int? = nil, groups: [Int] = [], to agent: AgentProcess, _ home: AgentHome
    ) throws -> LineClient {
        // Lets every user enter the directory of the socket. The mode of the socket itself comes from the settings.
        chmod(home.directory, 0o711)
        // socat parses commas and colons in an address, so commas and colons in the command are escaped.
        let numbers = groups.map(String.init).joined(separator: "\\,")
        let others = groups.isEmpty ? "--clear-groups" : "--groups=\(numbers)"
        let program = "socat -t 60 - UNIX-CONNECT\\:\(agent.socket)"
        let path = "\(home.directory)/as\(user)"
        let relay = try ChildProcess(
            "socat",
            [
                "-d", "-d", "UNIX-LISTEN:\(path)",
                "EXEC:setpriv --reuid=\(user) --regid=\(group ?? user) \(others) \(program)",
            ])
        try relay.waitForLog("listening on")
        let client = try LineClient(path: path)
        // The socat process accepts only one connection. Its socket is removed, so that the next call can bind the path
        // again.
        unlink(path)
        client.relay = relay
        return client
    }
}
