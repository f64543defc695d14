/// Does the socket exist, and may this user connect to it?
enum SocketCheck {
    private static let name = "socket"

    static func findings(_ facts: SocketFacts, _ service: ServiceFacts) -> [Finding] {
        let path = facts.path
        switch facts.file {
        case .missing:
            var detail: [String] = []
            if let other = facts.otherPath {
                detail.append("nor is there one at \(other), where your own agent would be")
            }
            if facts.choice == .variable { detail.append("LARDER_SOCKET names it") }
            return [
                Finding(
                    .problem, name, "there is no socket at \(path)", detail: detail, advice: service.howToStart(facts))
            ]
        case .hidden(let reason):
            return [
                Finding(
                    .problem, name, "\(path) cannot be looked at: \(reason)",
                    advice: [
                        "run this as a user who may enter its directory, or as root: \(facts.hintsForRoot.command("sudo larder doctor"))"
                    ])
            ]
        case .other(let kind):
            return [
                Finding(
                    .problem, name, "\(path) is \(kind), not a socket",
                    advice: [
                        facts.isNamed
                            ? "name the agent's socket: larder doctor --socket PATH"
                            : "move it away, then start the agent again"
                    ] + (facts.isNamed ? [] : service.howToStart(facts)))
            ]
        case .socket(let owner): return [access(facts, owner)]
        case .abstract:
            return [Finding(.ok, name, "\(path) is abstract: everybody in this network namespace may connect")]
        }
    }

    private static func access(_ facts: SocketFacts, _ owner: SocketFacts.Owner) -> Finding {
        let who = "\(owner.userName):\(owner.groupName) \(octal(owner.mode))"
        let title = "\(facts.path), \(who)"
        guard facts.mayConnect else { return denied(facts, owner, title) }
        if owner.mode & 0o002 != 0 {
            return Finding(
                .warning, name, "\(title): everybody on this host may connect",
                detail: ["what they may do then, the settings say (access)"],
                advice: ["set mode 0660 and a group: SocketMode= in larder.socket, or socket.mode in the settings"])
        }
        return Finding(.ok, name, "\(title); you may connect\(why(facts.caller, owner))")
    }

    private static func denied(_ facts: SocketFacts, _ owner: SocketFacts.Owner, _ title: String) -> Finding {
        let caller = facts.caller
        let title = "you (\(caller.name)) may not connect to \(title)"
        guard owner.mode & 0o020 != 0, owner.group != 0 else {
            return Finding(
                .problem, name, title, detail: ["only \(owner.userName) may"],
                advice: [
                    "run this as \(owner.userName), or let a group in: SocketGroup= and SocketMode=0660 in larder.socket, "
                        + "or socket.group in the settings"
                ])
        }
        guard !caller.groups.contains(owner.group) else {
            return Finding(
                .problem, name, title,
                detail: ["you are in group \(owner.groupName), so it must be a directory on the way to it"],
                advice: ["look at each with: namei -l \(facts.path)"])
        }
        if caller.databaseGroups.contains(owner.group) {
            return Finding(
                .problem, name, title,
                detail: ["you are in group \(owner.groupName), but not yet when you logged in"],
                advice: ["log out and in again, or go on in a new shell: newgrp \(owner.groupName)"])
        }
        guard caller.hasName else {
            return Finding(
                .problem, name, title,
                detail: [
                    "members of group \(owner.groupName) may; this host has no name for you, so you cannot be added to it"
                ],
                advice: [
                    "start the program with group \(owner.group) in whatever starts it: SupplementaryGroups= of a unit, "
                        + "--group-add of a container"
                ])
        }
        return Finding(
            .problem, name, title, detail: ["members of group \(owner.groupName) may"],
            advice: ["sudo usermod -aG \(owner.groupName) \(caller.name), then log in again"])
    }

    private static func why(_ caller: SocketFacts.Caller, _ owner: SocketFacts.Owner) -> String {
        if caller.user == 0 { return " as root" }
        if caller.user == owner.user { return " as its owner" }
        return caller.groups.contains(owner.group) ? " as a member of group \(owner.groupName)" : ""
    }

    private static func octal(_ mode: UInt32) -> String {
        let digits = String(mode, radix: 8)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
