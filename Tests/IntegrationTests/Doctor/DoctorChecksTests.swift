import LarderClient
import LarderProtocol
import Testing

@testable import LarderCommand

@Suite("Findings of larder doctor: socket, connection, version and rights")
struct DoctorChecksTests {
    @Test("for a healthy host, doctor prints one ok line per check and a summary")
    func healthyHost() {
        let report = Examination.healthy.report
        #expect(report.findings.allSatisfy { $0.level == .ok }, "\(Examination.healthy.complaints)")
        #expect(report.status == .success)
        let checks = [
            "socket", "service", "connection", "version", "rights", "settings", "clock", "disk", "upstream", "images",
            "clients",
        ]
        #expect(report.findings.map(\.check) == checks)
        let text = report.text(style: Style(isTerminal: false, noColor: "", terminal: ""), hasSymbols: true)
        #expect(
            text.hasPrefix("✓ socket      /run/larder/larder.sock, root:larder 0660; you may connect as a member of"))
        #expect(text.hasSuffix("\n\nNo problems found."))
    }

    @Test(
        "without symbols, levels are words; exit status depends on the worst level and whether the agent is reachable")
    func levels() {
        let findings = Finding.Level.allCases.map {
            Finding($0, "disk", "title\u{1B}[2J", detail: ["why"], advice: ["type this"])
        }
        let report = DoctorReport(findings: findings, isReachable: true)
        #expect(report.status == .failure)
        let plain = Style(isTerminal: false, noColor: "", terminal: "")
        #expect(
            report.text(style: plain, hasSymbols: false) == """
                [ok]      disk  title\\u{1B}[2J
                                why
                                -> type this
                [warning] disk  title\\u{1B}[2J
                                why
                                -> type this
                [problem] disk  title\\u{1B}[2J
                                why
                                -> type this
                [skipped] disk  title\\u{1B}[2J
                                why
                                -> type this

                1 problem, 1 warning.
                """)
        #expect(DoctorReport(findings: [], isReachable: false).status == .unreachable)
        #expect(DoctorReport(findings: [Finding(.warning, "a", "b")], isReachable: true).status == .warnings)
        #expect(
            DoctorReport(findings: [Finding(.skipped, "a", "b", advice: ["c"])], isReachable: false).json
                == #"{"reachable":false,"findings":[{"check":"a","level":"skipped","title":"b","detail":[],"advice":["c"]}]}"#
        )
    }

    // MARK: Socket

    @Test("a user outside the socket's group gets the command to join the group, or the advice to log in again")
    func groups() throws {
        var examination = Examination.healthy
        examination.socket.canConnect = false
        examination.socket.caller.groups = [1000]
        var complaint = try #require(examination.complaints.first)
        #expect(complaint.level == .problem)
        #expect(complaint.title == "you (alice) cannot connect to /run/larder/larder.sock, root:larder 0660")
        #expect(complaint.advice == ["log out and in again, or start a shell with the group: newgrp larder"])
        examination.socket.caller.databaseGroups = [1000]
        complaint = try #require(examination.complaints.first)
        #expect(complaint.advice == ["sudo usermod -aG larder alice, then log in again"])
        examination.socket.caller.groups = [990]
        #expect(examination.complaints.first?.advice == ["check the directories: namei -l /run/larder/larder.sock"])
        examination.socket.file = .socket(
            SocketFacts.Owner(user: 7, group: 990, userName: "bob", groupName: "larder", mode: 0o600))
        #expect(examination.complaints.first?.detail == ["only bob can connect"])
    }

    @Test("the advice for a user ID without a name contains no command that needs a user name")
    func namelessUsers() throws {
        var examination = Examination.healthy
        examination.socket.canConnect = false
        examination.socket.caller = SocketFacts.Caller(
            user: 3000, name: "user 3000", hasName: false, groups: [3000], databaseGroups: [])
        let complaint = try #require(examination.complaints.first)
        #expect(complaint.detail.first?.contains("your user ID has no name on this host") == true)
        #expect(complaint.advice.allSatisfy { !$0.contains("usermod") && $0.contains("group 990") })
    }

    @Test("a world-writable socket is a warning")
    func openSocket() {
        var examination = Examination.healthy
        var owner = SocketFacts.Owner.healthy
        owner.mode = 0o666
        examination.socket.file = .socket(owner)
        #expect(examination.complaints.map(\.level) == [.warning])
    }

    @Test("a missing socket is reported with the command that starts its unit or the agent")
    func missingSocket() {
        var examination = Examination.healthy
        examination.socket.file = .missing
        examination.socket.canConnect = false
        examination.agent = .failed(AgentReply.Failure(kind: .noSocket, reason: "none"))
        examination.service = .units(.down())
        let complaints = examination.complaints
        #expect(
            complaints.map(\.title) == [
                "larder.socket is inactive", "larder.service is inactive (dead)",
                "there is no socket at /run/larder/larder.sock",
                "not checked, because the socket cannot be used (see above)",
            ])
        #expect(complaints.first?.advice == ["sudo systemctl enable --now larder.socket"])
        #expect(complaints[2].advice == ["correct the service first (see above)"])
        #expect(examination.report.status == .unreachable)
        examination.service = .absent
        #expect(
            examination.complaints.first?.advice == ["start the agent: larderd, or for the whole host: sudo larderd"])
        examination.socket.choice = .variable
        #expect(examination.complaints.first?.detail.contains("LARDER_SOCKET is set to this path") == true)
        examination.socket.file = .other("a directory")
        #expect(
            examination.complaints.first?.title == "/run/larder/larder.sock is a directory, not a socket")
        examination.service = .units(.down())
        #expect(
            examination.complaints.first?.title == "/run/larder/larder.sock is a directory, not a socket",
            "the directory is why the unit is inactive")
    }

    // MARK: Connection, version, rights

    @Test("the advice for a failed connection depends on the kind of failure")
    func connections() throws {
        func complaint(_ kind: AgentReply.Failure.Kind, listener: String? = nil) throws -> Finding {
            var examination = Examination.healthy
            examination.agent = .failed(AgentReply.Failure(kind: kind, reason: "reason", listener: listener))
            #expect(examination.report.status == .unreachable)
            return try #require(examination.complaints.first { $0.check == "connection" })
        }
        #expect(try complaint(.refused).title == "no process listens on /run/larder/larder.sock")
        #expect(try complaint(.refused).advice == ["sudo systemctl restart larder.socket larder.service"])
        let silent = try complaint(.silent, listener: "systemd (process 1, root)")
        #expect(silent.title.contains("(systemd (process 1, root)) but did not reply in time"))
        #expect(silent.advice == ["sudo systemctl restart larder.service"])
        #expect(try complaint(.foreign).advice == ["pass the agent's socket: larder doctor --socket PATH"])
        #expect(try complaint(.closed).level == .problem)
        let denied = try complaint(.denied)
        #expect(denied.level == .problem && denied.detail == ["reason"])
    }

    @Test("a reply that cannot be decoded is reported with the decoding error")
    func undecodableReplies() throws {
        let answer = try JSONValue(parsing: #"{"x":1}"#)
        let error = try #require(throws: WireError.self) { try AgentInfo.Result(from: answer) }
        var examination = Examination.healthy
        examination.agent = .failed(AgentProbe.failure(of: error, socket: "/run/larder/larder.sock"))
        let complaint = try #require(examination.complaints.first { $0.check == "connection" })
        #expect(complaint.title.hasSuffix("is not a Larder agent, or has an incompatible version"))
        #expect(complaint.detail == ["its reply is invalid: \(error.detail)"])
    }

    @Test("a version mismatch and missing rights are reported")
    func versionsAndRights() {
        var facts = AgentFacts.healthy
        facts.info.version = "0.0.1"
        facts.info.rights = []
        var examination = Examination.healthy
        examination.agent = .facts(facts)
        #expect(
            examination.complaints.map(\.title) == [
                "larder has version \(larderVersion), but the running agent has version 0.0.1",
                "you can connect, but have no rights",
            ])
        facts = .healthy
        facts.info.rights = []
        facts.info.namespaceRights = ["shop": [.read]]
        #expect(
            RightsCheck.finding(facts)
                == Finding(.ok, "rights", "only in some namespaces", detail: ["in namespace shop: read"]))
    }
}
