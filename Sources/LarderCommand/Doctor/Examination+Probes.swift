import LarderClient

extension Examination {
    /// Looks at everything.
    /// - Parameters:
    ///   - socket: what `--socket` says.
    ///   - settings: what `--settings` says.
    ///   - timeout: how long each answer of the agent may take.
    static func make(socket option: String?, settings: String?, timeout: Duration) async -> Examination {
        let socket = SocketFacts(option: option)
        // Before the first connection, which starts a service that waits for one.
        var service = await ServiceFacts.look(for: socket)
        let agent = await AgentAnswer.ask(socket: socket.path, timeout: timeout)
        let facts = agent.facts
        // What became of the service that the question started says why there is no answer.
        if facts == nil { service = await ServiceFacts.look(for: socket) }
        let needsLog = facts == nil || service.hasFailed
        return Examination(
            socket: socket, service: service, agent: agent,
            settings: await SettingsFacts.look(
                option: settings, inForce: facts?.info.settings,
                agentUser: AgentUser.look(pid: facts?.info.pid, service), choice: socket.choice),
            clock: .now, volumes: volumes(facts, isSystem: socket.choice == .system),
            openFiles: facts.flatMap { openFiles(ofProcess: $0.info.pid) },
            log: needsLog ? await service.log(lines: 5) : [])
    }

    /// The directories that the agent names; where it does not answer, the host's, if they are there: a full disk may be why.
    private static func volumes(_ facts: AgentFacts?, isSystem: Bool) -> [VolumeFacts] {
        if let facts {
            return [VolumeFacts.look(at: facts.info.stateDirectory, purpose: "state")]
                + (facts.info.imageDirectory.map { [VolumeFacts.look(at: $0, purpose: "images")] } ?? [])
        }
        guard isSystem else { return [] }
        return [
            VolumeFacts.look(at: "/var/lib/larder", purpose: "state"),
            VolumeFacts.look(at: "/var/cache/larder", purpose: "images"),
        ].filter { $0.state != .missing }
    }

    /// How many files a process may have open (proc(5)); nil where that cannot be read.
    private static func openFiles(ofProcess pid: Int) -> Int? {
        guard let bytes = try? Input.contents(of: "/proc/\(pid)/limits") else { return nil }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let fields = lines.first { $0.hasPrefix("Max open files") }?.split(separator: " ")
        return fields.flatMap { $0.count > 3 ? Int($0[3]) : nil }
    }
}
