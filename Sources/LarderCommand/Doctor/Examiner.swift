import LarderClientCore

/// Collects the facts of an ``Examination`` from this host and its agent.
enum Examiner {
    /// Collects the facts.
    /// - Parameters:
    ///   - socket: the value of `--socket`
    ///   - settings: the value of `--settings`
    ///   - timeout: the timeout of each request to the agent
    static func examine(socket option: String?, settings: String?, timeout: Duration) async -> Examination {
        let socket = SocketFacts(option: option)
        // Query the service before the first connection, which would start a service with socket activation.
        var service = await ServiceFacts.probe(for: socket)
        let agent = await AgentProbe.answer(socket: socket.path, timeout: timeout)
        let facts = agent.facts
        // If the agent does not reply, query the service again: the request may have started the service, whose state
        // then explains the failure.
        if facts == nil { service = await ServiceFacts.probe(for: socket) }
        let needsLog = facts == nil || service.hasFailed
        return Examination(
            socket: socket, service: service, agent: agent,
            settings: await SettingsFacts.probe(
                option: settings, inForce: facts?.info.settings, isRunning: facts != nil,
                agentUser: AgentUser.probe(pid: facts?.info.pid, service), choice: socket.choice),
            clock: .now, volumes: volumes(facts, isSystem: socket.choice == .system),
            openFiles: facts.flatMap { openFiles(ofProcess: $0.info.pid) },
            log: needsLog ? await service.log(lines: 5) : [])
    }

    /// Returns the file systems of the directories that the agent reports. If the agent does not reply, returns the
    /// file systems of the system-wide agent's directories that exist, because a full disk may be why it does not
    /// reply.
    private static func volumes(_ facts: AgentFacts?, isSystem: Bool) -> [VolumeFacts] {
        if let facts { return VolumeFacts.all(of: facts.info) }
        guard isSystem else { return [] }
        return [
            VolumeFacts.probe(at: "/var/lib/larder", purpose: "state"),
            VolumeFacts.probe(at: "/var/cache/larder", purpose: "images"),
        ].filter { $0.state != .missing }
    }

    /// The maximum number of open files of a process (`/proc/PID/limits`, proc(5)); nil if it cannot be read.
    private static func openFiles(ofProcess pid: Int) -> Int? {
        guard let bytes = try? Input.contents(of: "/proc/\(pid)/limits") else { return nil }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let fields = lines.first { $0.hasPrefix("Max open files") }?.split(separator: " ")
        return fields.flatMap { $0.count > 3 ? Int($0[3]) : nil }
    }
}
