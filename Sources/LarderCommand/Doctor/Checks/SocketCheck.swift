import LarderEncoding

/// Checks that the socket exists and that this user may connect to it.
enum SocketCheck {
    private static let name = "socket"

    static func finding(_ facts: SocketFacts, _ advice: StartAdvice) -> Finding {
        let path = facts.path
        switch facts.file {
        case .missing:
            var detail: [String] = []
            if let other = facts.otherPath {
                detail.append("there is also no socket at \(other), the path of your own agent")
            }
            if facts.choice == .variable { detail.append("LARDER_SOCKET is set to this path") }
            return Finding(
                .problem, name, "there is no socket at \(path)", detail: detail,
                advice: advice.start)
        case .hidden(let reason):
            return Finding(
                .problem, name, "cannot access \(path): \(reason)",
                advice: [
                    "run as a user who can access its directory, or as root: "
                        + facts.hintsForRoot.command("sudo larder doctor")
                ])
        case .other(let kind):
            return Finding(
                .problem, name, "\(path) is \(kind), not a socket",
                advice: [
                    facts.isNamed
                        ? "pass the agent's socket: larder doctor --socket PATH"
                        : "move it away, then start the agent again"
                ] + (facts.isNamed ? [] : advice.start))
        case .socket(let owner): return access(facts, owner)
        case .abstract:
            return Finding(.ok, name, "\(path) is abstract: every process in this network namespace can connect")
        }
    }

    private static func access(_ facts: SocketFacts, _ owner: SocketFacts.Owner) -> Finding {
        let mode = String(owner.mode, radix: 8).rightAligned(to: 4, with: "0")
        let who = "\(owner.userName):\(owner.groupName) \(mode)"
        let title = "\(facts.path), \(who)"
        guard facts.canConnect else { return denied(facts, owner, title) }
        if owner.mode & 0o002 != 0 {
            return Finding(
                .warning, name, "\(title): every user on this host can connect",
                detail: ["\"access\" in the settings determines their rights"],
                advice: [
                    "set mode 0660 and a group: SocketMode= and SocketGroup= in larder.socket, or socket.mode and "
                        + "socket.group in the settings"
                ])
        }
        return Finding(.ok, name, "\(title); you may connect\(why(facts.caller, owner))")
    }

    private static func denied(_ facts: SocketFacts, _ owner: SocketFacts.Owner, _ title: String) -> Finding {
        let caller = facts.caller
        let title = "you (\(caller.name)) cannot connect to \(title)"
        guard owner.mode & 0o020 != 0, owner.group != 0 else {
            return Finding(
                .problem, name, title, detail: ["only \(owner.userName) can connect"],
                advice: [
                    "run as \(owner.userName), or give a group access: SocketGroup= and SocketMode=0660 in larder.socket, "
                        + "or socket.group in the settings"
                ])
        }
        guard !caller.groups.contains(owner.group) else {
            return Finding(
                .problem, name, title,
                detail: ["you are in group \(owner.groupName), so a directory above the socket must deny access"],
                advice: ["check the directories: namei -l \(facts.path.shellWord)"])
        }
        if caller.databaseGroups.contains(owner.group) {
            return Finding(
                .problem, name, title,
                detail: ["you were added to group \(owner.groupName) after you logged in"],
                advice: ["log out and in again, or start a shell with the group: newgrp \(owner.groupName)"])
        }
        guard caller.hasName else {
            return Finding(
                .problem, name, title,
                detail: [
                    "members of group \(owner.groupName) can connect, but your user ID has no name on this host, so it "
                        + "cannot be added to the group"
                ],
                advice: [
                    "give the program the group \(owner.group): SupplementaryGroups= in a unit, or --group-add for a "
                        + "container"
                ])
        }
        return Finding(
            .problem, name, title, detail: ["members of group \(owner.groupName) can connect"],
            advice: ["sudo usermod -aG \(owner.groupName) \(caller.name), then log in again"])
    }

    private static func why(_ caller: SocketFacts.Caller, _ owner: SocketFacts.Owner) -> String {
        if caller.user == 0 { return " as root" }
        if caller.user == owner.user { return " as its owner" }
        return caller.groups.contains(owner.group) ? " as a member of group \(owner.groupName)" : ""
    }
}
