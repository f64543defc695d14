import Glibc

/// A user who is not the one that runs the agent: what it says to the agent goes through a program that runs as that user.
/// Only root can start one.
final class OtherUser {
    /// Its connection.
    let client: LineClient
    private let relay: ChildProcess

    /// Connects to an agent.
    /// - Parameters:
    ///   - group: its first group; by default of the same number
    ///   - groups: its other groups
    init(_ user: Int, group: Int? = nil, groups: [Int] = [], at agent: AgentProcess, _ home: AgentHome) throws {
        // It has to get to the socket; who may connect there is the settings' to say.
        chmod(home.directory, 0o711)
        let path = "\(home.directory)/as\(user)-\(Self.nextNumber())"
        // A comma and a colon of its own are for socat itself.
        let numbers = groups.map(String.init).joined(separator: "\\,")
        let others = groups.isEmpty ? "--clear-groups" : "--groups=\(numbers)"
        let program = "socat -t 60 - UNIX-CONNECT\\:\(agent.socket)"
        relay = try ChildProcess(
            "socat",
            [
                "-d", "-d", "UNIX-LISTEN:\(path)",
                "EXEC:setpriv --reuid=\(user) --regid=\(group ?? user) \(others) \(program)",
            ])
        try relay.waitForLog("listening on")
        client = try LineClient(path: path)
    }

    /// The tests that use it run one after the other.
    private static func nextNumber() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_nsec
    }
}
