import Glibc
import TestSupport

/// Users who are not the one that runs the agent: what they say to it goes through a program that runs as that user. Only root
/// can start one.
enum OtherUser {
    /// Connects to an agent as a user.
    /// - Parameters:
    ///   - group: its first group; by default of the same number
    ///   - groups: its other groups
    static func connect(
        _ user: Int, group: Int? = nil, groups: [Int] = [], to agent: AgentProcess, _ home: AgentHome
    ) throws -> LineClient {
        // It has to get to the socket; who may connect there is the settings' to say.
        chmod(home.directory, 0o711)
        // A comma and a colon of its own are for socat itself.
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
        // It serves one connection; the next is another's.
        unlink(path)
        client.relay = relay
        return client
    }
}
