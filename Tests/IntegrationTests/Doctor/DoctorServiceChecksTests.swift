import LarderClient
import Testing

@testable import LarderCommand

@Suite("Findings of larder doctor: service")
struct DoctorServiceChecksTests {
    @Test(
        "each failure result of the service is explained",
        arguments: [
            ("exit-code", "78", "its settings are invalid"), ("exit-code", "1", "it exited with status 1"),
            ("exit-code", "226", "systemd could not set up its process (exit status 226, see systemd.exec(5))"),
            ("watchdog", "6", "it was killed because it did not notify the watchdog in time"),
            ("signal", "9", "it was killed by signal 9"),
            ("oom-kill", "9", "it was killed because memory ran out"),
            ("start-limit-hit", "1", "it failed too often in a short time, so systemd does not restart it"),
            ("timeout", "15", "it did not start or stop in time"), ("protocol", "0", "protocol"),
        ])
    func failures(result: String, status: String, reason: String) throws {
        var examination = Examination.healthy
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

    @Test(
        "a service that waits for its first client is ok; restarts by systemd and a disabled socket unit are reported")
    func servicesAtRest() {
        var examination = Examination.healthy
        var units = ServiceFacts.Units.healthy
        units.service = ServiceFacts.Units.unit(["ActiveState": "inactive", "SubState": "dead"])
        examination.service = .units(units)
        #expect(examination.complaints.isEmpty)
        units.service = ServiceFacts.Units.unit(["ActiveState": "active", "SubState": "running", "NRestarts": "3"])
        units.isRoot = true
        examination.service = .units(units)
        #expect(
            examination.complaints.map(\.title) == [
                "larder.service is active (running), but systemd had to restart it 3 times"
            ])
        #expect(examination.complaints.first?.advice == ["see why: journalctl -u larder.service -e"])
        for (hours, complaint) in [
            (3, "larder.service is active (running), but systemd had to restart it 3 times, the last time 3 h ago"),
            (25, nil),
        ] {
            units.service = UnitFacts(
                printed: "LoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=3\n"
                    + "ActiveEnterTimestampMonotonic=60000000\n",
                uptime: .seconds(60 + hours * 3_600))
            examination.service = .units(units)
            #expect(examination.complaints.map(\.title) == [complaint].compactMap(\.self))
        }
        units = .healthy
        units.isUser = true
        units.socket = ServiceFacts.Units.unit(["ActiveState": "active", "UnitFileState": "disabled"])
        examination.service = .units(units)
        #expect(examination.complaints.map(\.advice) == [["systemctl --user enable larder.socket"]])
        examination.service = .absent
        #expect(examination.complaints.map(\.level) == [.skipped])
    }

    @Test("the warning of restarts says how the service failed, and `status --check` has it, too")
    func restartsAfterCrash() {
        var units = ServiceFacts.Units.healthy
        units.service = ServiceFacts.Units.unit(["ActiveState": "active", "SubState": "running", "NRestarts": "4"])
        units.lastFailure = "it was killed by signal 11 (SIGSEGV)"
        var examination = Examination.healthy
        examination.service = .units(units)
        #expect(examination.complaints.map(\.detail) == [["the last time, it was killed by signal 11 (SIGSEGV)"]])
        let report = StatusCheck.report([.healthy], nil, service: .units(units))
        #expect(report.status == .warnings)
        #expect(
            report.headline
                == "warning: larder.service is active (running), but systemd had to restart it 4 times: the last time, it was killed by signal 11 (SIGSEGV)"
        )
        #expect(StatusCheck.report([.healthy], nil, service: .units(.healthy)).status == .success)
        #expect(StatusCheck.report([.healthy], nil, service: .another).status == .success)
    }

    @Test(
        "messages of systemd about the end of the main process are explained; others are ignored",
        arguments: [
            ("Main process exited, code=dumped, status=11/SEGV", "it was killed by signal 11 (SIGSEGV)"),
            ("Main process exited, code=killed, status=9/KILL", "it was killed by signal 9 (SIGKILL)"),
            ("Main process exited, code=exited, status=78/CONFIG", "it exited with status 78"),
            ("Main process exited", nil), ("Control process exited, code=exited, status=1/FAILURE", nil),
            ("Failed with result 'signal'.", nil),
        ])
    func processEnds(message: String, failure: String?) {
        #expect(ServiceFacts.failure(inMessage: "larder.service: \(message)") == failure)
    }

    @Test("doctor skips the check of the systemd service if the examined socket belongs to another agent")
    func otherAgents() {
        var units = ServiceFacts.Units.down(["ActiveState": "failed", "SubState": "failed", "Result": "exit-code"])
        units.socket = ServiceFacts.Units.unit([
            "ActiveState": "active", "Listen": "/run/larder/larder.sock (Stream)",
        ])
        var socket = SocketFacts.healthy
        #expect(ServiceFacts.units(units).of(socket) == .units(units))
        socket.choice = .option
        #expect(ServiceFacts.units(units).of(socket) == .units(units), "the service listens on this socket")
        socket.path = "/tmp/other.sock"
        #expect(ServiceFacts.units(units).of(socket) == .another)
        #expect(ServiceFacts.absent.of(socket) == .absent)
        var examination = Examination.healthy
        (examination.socket, examination.service) = (socket, .another)
        #expect(examination.complaints.map(\.level) == [.skipped])
        #expect(
            ServiceFacts.another.startCommands(socket)
                == ["start the agent of this socket: larderd --socket /tmp/other.sock"])
        #expect(ServiceFacts.another.restartCommands == ["restart the agent"])
    }

    @Test("if systemd did not start the agent, the advice is to stop the agent before enabling the service")
    func manuallyStartedAgent() throws {
        var examination = Examination.healthy
        examination.service = .units(.down())
        #expect(examination.complaints.map(\.level) == [.warning])
        let complaint = try #require(examination.complaints.first)
        #expect(complaint.title.hasPrefix("systemd does not manage the running agent (process 612)"))
        #expect(
            complaint.advice == [
                "to run the agent under systemd, first stop this one: sudo kill 612",
                "sudo systemctl enable --now larder.socket",
            ])
    }

    @Test("masked and invalid units are reported as masked and invalid, not as absent")
    func unusableUnits() {
        var examination = Examination.healthy
        examination.socket.file = .missing
        examination.agent = .failed(AgentReply.Failure(kind: .noSocket, reason: "none"))
        var units = ServiceFacts.Units.down()
        let masked = ServiceFacts.Units.unit(["LoadState": "masked", "ActiveState": "inactive"])
        (units.service, units.socket) = (masked, masked)
        examination.service = .units(units)
        var complaints = examination.complaints.filter { $0.check == "service" }
        #expect(
            complaints.map(\.title) == ["larder.socket and larder.service are masked and cannot be started"])
        #expect(complaints.map(\.level) == [.problem])
        #expect(
            examination.complaints.first?.advice == [
                "sudo systemctl unmask larder.socket larder.service",
                "sudo systemctl enable --now larder.socket larder.service",
            ])
        #expect(
            ServiceFacts.units(units).startCommands(examination.socket) == [
                "sudo systemctl unmask larder.socket larder.service", "sudo systemctl enable --now larder.socket",
            ])

        units.service = ServiceFacts.Units.healthy.service
        examination.service = .units(units)
        complaints = examination.complaints.filter { $0.check == "service" }
        #expect(complaints.map(\.title) == ["larder.socket is masked and cannot be started"])
        #expect(complaints.first?.advice.first == "sudo systemctl unmask larder.socket")

        units = .healthy
        units.service = ServiceFacts.Units.unit([
            "LoadState": "bad-setting", "ActiveState": "inactive",
            "LoadError": #"org.freedesktop.systemd1.BadUnitSetting "Unit larder.service has a bad unit file setting.""#,
        ])
        examination.service = .units(units)
        complaints = examination.complaints.filter { $0.check == "service" }
        #expect(
            complaints.map(\.title) == ["systemd cannot load larder.service: its unit file is invalid (bad-setting)"])
        #expect(complaints.first?.detail == ["Unit larder.service has a bad unit file setting."])
        #expect(complaints.first?.advice.first?.contains("systemd-analyze verify larder.service") == true)

        let absent = ServiceFacts.Units.unit(["LoadState": "not-found", "ActiveState": "inactive"])
        (units.service, units.socket) = (absent, absent)
        examination.service = .units(units)
        complaints = examination.complaints.filter { $0.check == "service" }
        #expect(complaints.map(\.level) == [.skipped])
        #expect(complaints.first?.title.hasPrefix("systemd does not manage the agent") == true)
    }

    @Test(
        "invalid settings that prevent a start are the first finding, and each command that starts the agent follows them"
    )
    func settingsThatPreventStart() throws {
        var examination = Examination.healthy
        examination.socket.file = .missing
        examination.agent = .failed(AgentReply.Failure(kind: .noSocket, reason: "none"))
        examination.settings?.state = .wrong(["/etc/larder/larder.json:1:3: expected a value"])
        let first = "correct the settings first (see above), then:"
        for units in [
            ServiceFacts.Units.down(),
            .down(["ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainStatus": "78"]),
        ] {
            examination.service = .units(units)
            let complaints = examination.complaints
            #expect(complaints.first?.title == "/etc/larder/larder.json is invalid")
            let starting = complaints.filter { $0.advice.contains { $0.contains("systemctl") } }
            #expect(!starting.isEmpty)
            #expect(starting.allSatisfy { $0.check == "service" && $0.advice.first == first }, "\(starting)")
            let socket = try #require(complaints.first { $0.check == "socket" })
            #expect(socket.advice == ["correct the service first (see above)"])
        }
        examination.service = .another
        #expect(
            examination.complaints.first { $0.check == "socket" }?.advice
                == [first, "start the agent: larderd, or for the whole host: sudo larderd"])
        examination.socket.file = .socket(.healthy)
        examination.agent = .failed(AgentReply.Failure(kind: .refused, reason: "none"))
        #expect(examination.complaints.first { $0.check == "connection" }?.advice.first == first)

        // Errors in the files that the settings name do not prevent a start.
        examination.settings?.state = .wrong(["/etc/larder/schema.json:1:1: expected a value"])
        #expect(examination.complaints.first?.check == "settings")
        #expect(examination.complaints.allSatisfy { !$0.advice.contains(first) })
    }

    @Test("after invalid settings were corrected, the service that failed because of them is restarted")
    func correctedSettings() {
        var examination = Examination.healthy
        examination.agent = .failed(AgentReply.Failure(kind: .silent, reason: "none"))
        examination.service = .units(
            .down(["ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainStatus": "78"]))
        #expect(examination.complaints.first?.advice.first == "the settings are valid now, so restart it")
        #expect(examination.complaints.first?.title.hasPrefix("larder.service is failed") == true)
        examination.settings?.state = .unreadable
        #expect(examination.complaints.first?.advice.first == "correct the settings (see below)")
        #expect(examination.complaints.last { $0.check == "settings" }?.level == .skipped)
    }

    @Test("problems of the disk, the settings and the service precede the problems that they explain")
    func rootCausesFirst() {
        var examination = Examination.healthy
        examination.socket.file = .missing
        examination.agent = .failed(AgentReply.Failure(kind: .noSocket, reason: "none"))
        examination.service = .units(.down())
        examination.settings?.state = .wrong(["/etc/larder/larder.json:1:3: expected a value"])
        var full = VolumeFacts.Capacity.healthy
        full.freeBytes = 0
        examination.volumes = [VolumeFacts(purpose: "state", path: "/var/lib/larder", state: .capacity(full))]
        #expect(
            examination.complaints.map(\.check) == ["disk", "settings", "service", "service", "socket", "connection"])
    }

    @Test("the socket of a service that is running is started by a restart, because systemd refuses a start")
    func socketOfRunningService() {
        var units = ServiceFacts.Units.healthy
        units.socket = ServiceFacts.Units.unit(["ActiveState": "inactive", "SubState": "dead"])
        var examination = Examination.healthy
        examination.service = .units(units)
        #expect(
            examination.complaints.map(\.advice) == [
                ["sudo systemctl enable larder.socket", "sudo systemctl restart larder.socket larder.service"]
            ])
    }

    @Test("the log excerpt omits systemd's generic failure lines if there are other lines")
    func logs() {
        let own = "2026-01-31 host larderd[7]: 1:2: color is not a setting"
        let cause = "2026-01-31 host systemd[1]: larder.service: Failed at step NAMESPACE spawning /usr/sbin/larderd"
        let phrase = "2026-01-31 host systemd[1]: larder.service: Failed with result 'exit-code'."
        #expect(ServiceFacts.informative([phrase, own, cause, phrase, phrase], 5) == [own, cause])
        #expect(ServiceFacts.informative([own, own, cause], 2) == [own, cause])
        #expect(ServiceFacts.informative([phrase, phrase], 1) == [phrase])
    }
}
