import LarderClient
import Testing

@testable import LarderCommand

@Suite("What larder doctor makes of what it finds")
struct DoctorChecksTests {
    @Test("where all is well it says so, with a line for everything")
    func well() {
        let report = Examination.well.report
        #expect(report.findings.allSatisfy { $0.level == .ok }, "\(Examination.well.complaints)")
        #expect(report.status == .success)
        let checks = [
            "socket", "service", "connection", "version", "rights", "settings", "clock", "disk", "upstream", "images",
            "clients",
        ]
        #expect(report.findings.map(\.check) == checks)
        let text = report.text(style: Style(isTerminal: false, noColor: "", terminal: ""), hasSymbols: true)
        #expect(
            text.hasPrefix("✓ socket      /run/larder/larder.sock, root:larder 0660; you may connect as a member of"))
        #expect(text.hasSuffix("\n\nAll is well."))
    }

    @Test("without symbols the levels are words, and problems decide on the exit status")
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
        #expect(DoctorReport(findings: [Finding(.warning, "a", "b")], isReachable: true).status == .success)
        #expect(
            DoctorReport(findings: [Finding(.skipped, "a", "b", advice: ["c"])], isReachable: false).json
                == #"{"reachable":false,"findings":[{"check":"a","level":"skipped","title":"b","detail":[],"advice":["c"]}]}"#
        )
    }

    // MARK: Socket

    @Test("a user who is not in the socket's group is told how to get there, and that it needs a new login")
    func groups() throws {
        var examination = Examination.well
        examination.socket.mayConnect = false
        examination.socket.caller.groups = [1000]
        var complaint = try #require(examination.complaints.first)
        #expect(complaint.level == .problem)
        #expect(complaint.title == "you (alice) may not connect to /run/larder/larder.sock, root:larder 0660")
        #expect(complaint.advice == ["log out and in again, or go on in a new shell: newgrp larder"])
        examination.socket.caller.databaseGroups = [1000]
        complaint = try #require(examination.complaints.first)
        #expect(complaint.advice == ["sudo usermod -aG larder alice, then log in again"])
        examination.socket.caller.groups = [990]
        #expect(examination.complaints.first?.advice == ["look at each with: namei -l /run/larder/larder.sock"])
        examination.socket.file = .socket(
            SocketFacts.Owner(user: 7, group: 990, userName: "bob", groupName: "larder", mode: 0o600))
        #expect(examination.complaints.first?.detail == ["only bob may"])
    }

    @Test("a user without a name is not told to type one")
    func namelessUsers() throws {
        var examination = Examination.well
        examination.socket.mayConnect = false
        examination.socket.caller = SocketFacts.Caller(
            user: 3000, name: "user 3000", hasName: false, groups: [3000], databaseGroups: [])
        let complaint = try #require(examination.complaints.first)
        #expect(complaint.detail.first?.contains("this host has no name for you") == true)
        #expect(complaint.advice.allSatisfy { !$0.contains("usermod") && $0.contains("group 990") })
    }

    @Test("a socket that everybody may write to works, but is pointed out")
    func openSocket() {
        var examination = Examination.well
        var owner = SocketFacts.Owner.well
        owner.mode = 0o666
        examination.socket.file = .socket(owner)
        #expect(examination.complaints.map(\.level) == [.warning])
    }

    @Test("where there is no socket the command is named that makes one")
    func missing() {
        var examination = Examination.well
        examination.socket.file = .missing
        examination.socket.mayConnect = false
        examination.agent = .failed(AgentAnswer.Failure(kind: .noSocket, reason: "none"))
        examination.service = .units(.down())
        let complaints = examination.complaints
        #expect(complaints.first?.title == "there is no socket at /run/larder/larder.sock")
        #expect(complaints.first?.advice == ["sudo systemctl enable --now larder.socket"])
        #expect(examination.report.status == .unreachable)
        examination.service = .absent
        #expect(examination.complaints.first?.advice == ["start the agent: larderd, or as root for the whole host"])
        examination.socket.choice = .variable
        #expect(examination.complaints.first?.detail.contains("LARDER_SOCKET names it") == true)
        examination.socket.file = .other("a directory")
        #expect(
            examination.complaints.first?.title == "/run/larder/larder.sock is a directory, not a socket")
    }

    // MARK: Service

    @Test(
        "each way in which a service fails is explained",
        arguments: [
            ("exit-code", "78", "its settings are wrong"), ("exit-code", "1", "it ended with status 1"),
            ("exit-code", "226", "systemd could not prepare it (exit status 226, systemd.exec(5))"),
            ("watchdog", "6", "it no longer answered the watchdog, and was killed"),
            ("signal", "9", "it was ended by signal 9"),
            ("oom-kill", "9", "the system ran out of memory, and it was killed"),
            ("start-limit-hit", "1", "it failed too often in a short time, and systemd has given up"),
            ("timeout", "15", "it did not start or stop in time"), ("protocol", "0", "protocol"),
        ])
    func failures(result: String, status: String, reason: String) throws {
        var examination = Examination.well
        examination.service = .units(
            .down(["ActiveState": "failed", "SubState": "failed", "Result": result, "ExecMainStatus": status]))
        examination.log = ["2026-01-31 larderd: the last word"]
        let complaint = try #require(examination.complaints.first { $0.title.hasPrefix("larder.service") })
        #expect(complaint.level == .problem)
        #expect(complaint.title == "larder.service is failed (failed): \(reason)")
        #expect(complaint.detail.last == "  2026-01-31 larderd: the last word")
        #expect(complaint.advice.contains("sudo systemctl restart larder.service"))
        #expect(
            complaint.advice.contains("sudo systemctl reset-failed larder.service larder.socket")
                == (result == "start-limit-hit"))
    }

    @Test("a service that waits for its first client is well, one that was started again is not quite")
    func servicesAtRest() {
        var examination = Examination.well
        var units = ServiceFacts.Units.well
        units.service = ServiceFacts.Units.unit(["ActiveState": "inactive", "SubState": "dead"])
        examination.service = .units(units)
        #expect(examination.complaints.isEmpty)
        units.service = ServiceFacts.Units.unit(["ActiveState": "active", "SubState": "running", "NRestarts": "3"])
        units.isRoot = true
        examination.service = .units(units)
        #expect(
            examination.complaints.map(\.title) == [
                "larder.service is active (running), and systemd had to start it again 3 times"
            ])
        #expect(examination.complaints.first?.advice == ["see why: journalctl -u larder.service -e"])
        units = .well
        units.isUser = true
        units.socket = ServiceFacts.Units.unit(["ActiveState": "active", "UnitFileState": "disabled"])
        examination.service = .units(units)
        #expect(examination.complaints.map(\.advice) == [["systemctl --user enable larder.socket"]])
        examination.service = .absent
        #expect(examination.complaints.map(\.level) == [.skipped])
    }

    @Test("who names the socket of another agent hears nothing of the service")
    func otherAgents() {
        var units = ServiceFacts.Units.down(["ActiveState": "failed", "SubState": "failed", "Result": "exit-code"])
        units.socket = ServiceFacts.Units.unit([
            "ActiveState": "active", "Listen": "/run/larder/larder.sock (Stream)",
        ])
        var socket = SocketFacts.well
        #expect(ServiceFacts.units(units).of(socket) == .units(units))
        socket.choice = .option
        #expect(ServiceFacts.units(units).of(socket) == .units(units), "it is the service's")
        socket.path = "/tmp/other.sock"
        #expect(ServiceFacts.units(units).of(socket) == .another)
        #expect(ServiceFacts.absent.of(socket) == .absent)
        var examination = Examination.well
        (examination.socket, examination.service) = (socket, .another)
        #expect(examination.complaints.map(\.level) == [.skipped])
        #expect(
            ServiceFacts.another.howToStart(socket)
                == ["start the agent of that socket: larderd --socket /tmp/other.sock"])
        #expect(ServiceFacts.another.howToRestart == ["restart the agent"])
    }

    @Test("an agent that somebody started in another way is to be stopped before the service is started")
    func agentsByHand() throws {
        var examination = Examination.well
        examination.service = .units(.down())
        #expect(examination.complaints.map(\.level) == [.warning])
        let complaint = try #require(examination.complaints.first)
        #expect(complaint.title.hasPrefix("systemd does not run the agent that answers (process 612)"))
        #expect(
            complaint.advice == [
                "to have systemd run it, stop that one first: sudo kill 612",
                "sudo systemctl enable --now larder.socket",
            ])
    }

    @Test("units that systemd has, but cannot start, are not called absent")
    func unusableUnits() {
        var examination = Examination.well
        examination.socket.file = .missing
        examination.agent = .failed(AgentAnswer.Failure(kind: .noSocket, reason: "none"))
        var units = ServiceFacts.Units.down()
        let masked = ServiceFacts.Units.unit(["LoadState": "masked", "ActiveState": "inactive"])
        (units.service, units.socket) = (masked, masked)
        examination.service = .units(units)
        var complaints = examination.complaints.filter { $0.check == "service" }
        #expect(
            complaints.map(\.title) == [
                "larder.socket is masked: nothing can start it", "larder.service is masked: nothing can start it",
            ])
        #expect(complaints.map(\.level) == [.problem, .problem])
        #expect(complaints.first?.advice.first == "sudo systemctl unmask larder.socket")
        #expect(
            examination.complaints.first?.advice == [
                "sudo systemctl unmask larder.socket larder.service", "sudo systemctl enable --now larder.socket",
            ])

        units = .well
        units.service = ServiceFacts.Units.unit([
            "LoadState": "bad-setting", "ActiveState": "inactive",
            "LoadError": #"org.freedesktop.systemd1.BadUnitSetting "Unit larder.service has a bad unit file setting.""#,
        ])
        examination.service = .units(units)
        complaints = examination.complaints.filter { $0.check == "service" }
        #expect(complaints.map(\.title) == ["systemd cannot use larder.service: its file is wrong (bad-setting)"])
        #expect(complaints.first?.detail == ["Unit larder.service has a bad unit file setting."])
        #expect(complaints.first?.advice.first?.contains("systemd-analyze verify larder.service") == true)

        let absent = ServiceFacts.Units.unit(["LoadState": "not-found", "ActiveState": "inactive"])
        (units.service, units.socket) = (absent, absent)
        examination.service = .units(units)
        complaints = examination.complaints.filter { $0.check == "service" }
        #expect(complaints.map(\.level) == [.skipped])
        #expect(complaints.first?.title.hasPrefix("systemd has no larder.service") == true)
    }

    @Test("of the log those lines are shown that say more than that it failed")
    func logs() {
        let own = "2026-01-31 host larderd[7]: 1:2: colour is not a setting"
        let cause = "2026-01-31 host systemd[1]: larder.service: Failed at step NAMESPACE spawning /usr/sbin/larderd"
        let phrase = "2026-01-31 host systemd[1]: larder.service: Failed with result 'exit-code'."
        #expect(ServiceFacts.telling([phrase, own, cause, phrase, phrase], 5) == [own, cause])
        #expect(ServiceFacts.telling([own, own, cause], 2) == [own, cause])
        #expect(ServiceFacts.telling([phrase, phrase], 1) == [phrase])
    }

    // MARK: Connection, version, rights

    @Test("why there is no answer decides on what to do")
    func connections() throws {
        func complaint(_ kind: AgentAnswer.Failure.Kind, listener: String? = nil) throws -> Finding {
            var examination = Examination.well
            examination.agent = .failed(AgentAnswer.Failure(kind: kind, reason: "reason", listener: listener))
            #expect(examination.report.status == .unreachable)
            return try #require(examination.complaints.first { $0.check == "connection" })
        }
        #expect(try complaint(.refused).title == "nobody listens on /run/larder/larder.sock")
        #expect(try complaint(.refused).advice == ["sudo systemctl restart larder.socket larder.service"])
        let silent = try complaint(.silent, listener: "systemd (process 1, root)")
        #expect(silent.title.contains("(systemd (process 1, root)), but does not answer in time"))
        #expect(silent.advice == ["sudo systemctl restart larder.service"])
        #expect(try complaint(.foreign).advice == ["name the agent's socket: larder doctor --socket PATH"])
        #expect(try complaint(.closed).level == .problem)
        #expect(try complaint(.denied).level == .skipped)
    }

    @Test("an answer that cannot be read is told in words")
    func unreadableAnswers() throws {
        let answer = try JSONValue(parsing: #"{"x":1}"#)
        let error = try #require(throws: WireError.self) { try AgentInfo.Result(from: answer) }
        var examination = Examination.well
        examination.agent = .failed(AgentAnswer.failure(of: error, socket: "/run/larder/larder.sock"))
        let complaint = try #require(examination.complaints.first { $0.check == "connection" })
        #expect(complaint.title.hasSuffix("is no Larder agent that this larder understands"))
        #expect(complaint.detail == ["its answer cannot be read: \(error.detail)"])
    }

    @Test("another version and rights that are not there are told")
    func versionsAndRights() {
        var facts = AgentFacts.well
        facts.info.version = "0.0.1"
        facts.rights = []
        var examination = Examination.well
        examination.agent = .facts(facts)
        #expect(
            examination.complaints.map(\.title) == [
                "larder is \(larderVersion), but the agent that runs is 0.0.1", "you may connect, but have no rights",
            ])
        facts = .well
        facts.rights = nil
        examination.agent = .facts(facts)
        #expect(examination.complaints.map(\.level) == [.skipped])
        facts.rights = []
        facts.namespaceRights = ["shop": ["read"]]
        #expect(
            RightsCheck.findings(facts) == [
                Finding(.ok, "rights", "none in general", detail: ["in namespace shop: read"])
            ])
    }
}
