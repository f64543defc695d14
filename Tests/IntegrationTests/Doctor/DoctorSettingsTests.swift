import LarderClient
import LarderEncoding
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Findings of larder doctor: settings")
struct DoctorSettingsTests {
    private func settings(_ change: (inout SettingsFacts) -> Void) -> [Finding] {
        var examination = Examination.healthy
        var facts = SettingsFacts(
            path: "/etc/larder/larder.json", isNamed: false, state: .right, modifiedAt: .early)
        change(&facts)
        examination.settings = facts
        return examination.complaints
    }

    private let creation = [
        "restore the file, or create it with the content {} for the default settings, then reload it:",
        "sudo systemctl reload larder.service",
    ]

    @Test("doctor reports invalid, missing, unreadable and changed settings files with different findings")
    func settingsFiles() {
        let wrong = settings { $0.state = .wrong(["/etc/larder/larder.json:1:2: color is not a setting"]) }
        #expect(wrong.map(\.title) == ["/etc/larder/larder.json is invalid"])
        #expect(wrong.first?.detail == ["/etc/larder/larder.json:1:2: color is not a setting"])
        #expect(wrong.first?.advice.first?.hasSuffix("keeps the settings in force, also after a restart") == true)
        #expect(wrong.first?.advice.last == "sudo systemctl reload larder.service")
        var unsaved = AgentFacts.healthy
        unsaved.info.problems = [AgentInfo.Problem(name: "settingsCopy", message: "cannot write /x")]
        var file = Examination.healthy.settings
        file?.state = .wrong(["/etc/larder/larder.json:1:2: color is not a setting"])
        let advice = SettingsCheck.findings(file, unsaved, .absent).first?.advice.first
        #expect(advice?.hasSuffix("keeps the settings in force, but not after a restart") == true)
        let deleted = settings { $0.state = .missing }
        #expect(deleted.map(\.level) == [.problem])
        #expect(deleted.first?.advice == creation)
        #expect(settings { $0.state = .unreadable }.map(\.level) == [.skipped])
        let newer = settings { $0.modifiedAt = Timestamp(milliseconds: AgentFacts.start.milliseconds + 1) }
        #expect(newer.map(\.level) == [.warning])
        #expect(newer.first?.title.hasSuffix("was changed 59 s ago, after the agent had read it") == true)
        let missing = settings { facts in
            facts.path = "/nowhere"
            facts.state = .missing
        }
        #expect(missing.isEmpty, "the defaults are in force")
        var facts = AgentFacts.healthy
        facts.info.settings = nil
        #expect(SettingsCheck.findings(Examination.healthy.settings, facts, .absent).map(\.level) == [.warning])
    }

    @Test("settings that the agent rejected are reported first, until they are reloaded")
    func rejectedSettings() {
        let line = "/etc/larder/larder.json:1:3: expected a value"
        var examination = Examination.healthy
        var facts = AgentFacts.healthy
        facts.info.settingsProblem = line
        examination.agent = .facts(facts)
        examination.settings?.state = .wrong([line, "/etc/larder/larder.json:2:1: unknown member"])
        let finding = examination.report.findings.first
        #expect(examination.complaints == [finding])
        #expect(finding?.level == .problem)
        #expect(finding?.title.hasPrefix("the agent runs with earlier settings") == true)
        #expect(finding?.detail == [line, "/etc/larder/larder.json:2:1: unknown member"])
        #expect(finding?.advice == ["correct the file, then reload it:", "sudo systemctl reload larder.service"])

        let corrected = ["the file is valid now; reload it:", "sudo systemctl reload larder.service"]
        examination.settings?.state = .right
        #expect(examination.report.findings.first?.advice == corrected)
        examination.settings?.state = .wrong(["/etc/larder/config.d/10.json:1:2: expected a value"])
        #expect(examination.report.findings.first?.advice == corrected)
        examination.settings?.state = .missing
        #expect(examination.report.findings.first?.advice == creation)
        examination.settings?.path = "/srv/another.json"
        #expect(examination.report.findings.first?.advice.first == "correct the file, then reload it:")
    }

    @Test("if the settings file is missing, valid files of larder.d are neither the file nor a correction")
    func missingBesideDirectory() {
        let path = "/etc/larder/larder.json"
        let file = SettingsFacts(path: path, isNamed: false, state: .right, exists: false, modifiedAt: .early)
        var facts = AgentFacts.healthy
        #expect(
            SettingsCheck.findings(file, facts, .absent)
                == [Finding(.ok, "settings", "/etc/larder/larder.d is valid, and the agent has read it")])
        facts.info.settingsProblem = "\(path): this file no longer exists; restore it"
        func advice(_ problem: String) -> String? {
            SettingsCheck.findings(file, facts, .units(.healthy), problem: problem).first?.advice.first
        }
        #expect(advice("\(path): this file no longer exists; restore it") == creation.first)
        #expect(advice("/etc/larder/larder.d/10.json:1:1: unknown member") == "the file is valid now; reload it:")
        var missing = file
        missing.state = .missing
        let finding = SettingsCheck.findings(missing, nil, .absent).first
        #expect(finding?.title.hasSuffix("starts with the settings that it saved last, or with the defaults") == true)
    }

    @Test("an agent that waits for valid settings is reported as such, with the error of the settings first")
    func awaitedSettings() {
        let line = "/etc/larder/larder.json:1:3: expected a value"
        var examination = Examination.healthy
        examination.agent = .failed(
            AgentReply.Failure(kind: .withoutSettings, reason: "the settings are invalid: \(line)"))
        examination.settings = nil
        let finding = examination.report.findings.first
        #expect(finding?.level == .problem)
        #expect(finding?.title == "the agent has no valid settings, so it refuses all requests")
        #expect(finding?.detail == ["the settings are invalid: \(line)"])
        #expect(examination.report.status == .unreachable)
        examination.settings = SettingsFacts(
            path: "/etc/larder/larder.json", isNamed: false, state: .wrong([line]), modifiedAt: .early)
        #expect(examination.report.findings.first == finding)
    }

    @Test("if no agent runs and there are no system settings, the settings of the user are checked")
    func userSettings() {
        let (system, user) = ("/etc/larder/larder.json", "/home/alice/.config/larder/larder.json")
        func path(_ files: String..., choice: SocketFacts.Choice = .system, mayBeUsers: Bool = true) -> String? {
            SettingsFacts.defaultPath(choice, mayBeUsers: mayBeUsers, userFile: user, exists: { files.contains($0) })
        }
        #expect(path(user) == user)
        #expect(path(user, system) == system)
        #expect(path() == system)
        #expect(path(user, mayBeUsers: false) == system)
        #expect(path(choice: .user) == user)
        #expect(path(user, choice: .variable) == nil)
    }

    @Test("settings that the agent's user cannot read are a problem, even if the caller can read them")
    func hiddenSettings() {
        let findings = settings {
            $0.deniedUser = SettingsFacts.DeniedUser(
                userName: "larder", group: "larder", permissions: "root:root 0600")
        }
        #expect(findings.map(\.level) == [.problem])
        #expect(
            findings.first?.title == "the agent's user larder cannot read /etc/larder/larder.json")
        #expect(
            findings.first?.advice
                == ["as root: chgrp larder /etc/larder/larder.json && chmod 640 /etc/larder/larder.json"])
    }

    @Test("if a directory above the settings is closed to the agent's user, the advice opens that directory")
    func settingsBelowClosedDirectory() {
        let finding = settings {
            $0.path = "/srv/my site/etc/larder.json"
            $0.deniedUser = SettingsFacts.DeniedUser(
                userName: "larder", group: "larder", permissions: "root:root 0700",
                closedDirectory: SettingsFacts.ClosedDirectory(path: "/srv/my site", modeChange: "o+x"))
        }.first
        #expect(finding?.detail.first?.hasPrefix("the user cannot enter /srv/my site; its owner and mode are") == true)
        #expect(finding?.advice.first == "as root: chmod o+x '/srv/my site'")
        #expect(finding?.advice.contains { $0.contains("chgrp") } == false)
    }

    @Test("the directories above a file begin with the outermost, and the permissions that apply to a user are found")
    func closedDirectories() {
        #expect(AgentUser.directories(above: "/etc/larder/larder.json") == ["/", "/etc", "/etc/larder"])
        #expect(AgentUser.directories(above: "larder.json") == [])
        let user = AgentUser(user: 990, group: 991, groups: [7])
        #expect(user.classOfPermissions(owner: 990, group: 991) == "u")
        #expect(user.classOfPermissions(owner: 0, group: 991) == "g")
        #expect(user.classOfPermissions(owner: 0, group: 7) == "g")
        #expect(user.classOfPermissions(owner: 0, group: 0) == "o")
    }

    @Test("the user and groups of the agent are read from /proc/PID/status")
    func agentUsers() {
        let status = "Name:\tlarderd\nUid:\t0\t990\t990\t990\nGid:\t991\t991\t991\t991\nGroups:\t7 8 \n"
        #expect(AgentUser(status: status) == AgentUser(user: 990, group: 991, groups: [7, 8]))
        #expect(AgentUser(status: "Name:\tlarderd\n") == nil)
    }

    @Test("each proxy of the settings is tested, and its problem is separated from what to do")
    func proxies() {
        var file = SettingsFacts(path: "/etc/larder/larder.json", isNamed: false, state: .right)
        #expect(ProxyCheck.findings(file) == [])
        file.proxies = [
            ProxyFacts(place: "p:1", target: "192.0.2.1:443", setting: "namespaces.a.remote"),
            ProxyFacts(place: "p:1", setting: "proxy", isFromOwnEnvironment: true),
            ProxyFacts(
                place: "q:2", target: "192.0.2.1:443", setting: "namespaces.b.remote",
                problem: "the proxy q:2 refuses; allow it; or not"),
            ProxyFacts(place: "r:3", setting: "proxy", problem: "no such credential", isUntested: true),
        ]
        let findings = ProxyCheck.findings(file)
        #expect(findings.map(\.level) == [.ok, .ok, .problem, .skipped])
        #expect(
            findings.map(\.title) == [
                "p:1 opens a tunnel to 192.0.2.1:443", "p:1 accepts connections", "the proxy q:2 refuses",
                "r:3 was not tested: no such credential",
            ])
        #expect(findings[0].detail.isEmpty)
        #expect(findings[1].detail.last?.hasPrefix("tested with the variables of this command") == true)
        #expect(findings[2].detail == ["used by namespaces.b.remote"])
        #expect(findings[2].advice == ["allow it", "or not"])
    }

    @Test("the proxies of a running agent are those of its environment, not of this process")
    func proxyEnvironment() {
        let environment = ProxyFacts.environment(Array("A=1\0http_proxy=http://p:1/?a=b\0NO_PROXY=\0HOME=/\0".utf8))
        #expect(environment["http_proxy"] == "http://p:1/?a=b")
        #expect(environment["HTTPS_PROXY"] == "", "an unset variable hides that of this process")
        #expect(environment.count == 6 && environment["HOME"] == nil)
        #expect(ProxyFacts.environment(ofAgent: 1) == nil, "process 1 is no agent")
    }

    @Test("files that are not read are a warning besides the state of the settings")
    func ignoredFiles() {
        let file = SettingsFacts(
            path: "/etc/larder/larder.json", isNamed: false, state: .right, modifiedAt: .early,
            ignoredFiles: ["/etc/larder/config.d/40-x.jsn: its name"])
        let findings = SettingsCheck.findings(file, .healthy, .units(.healthy))
        #expect(findings.map(\.level) == [.ok, .warning])
        #expect(findings.last?.detail == ["/etc/larder/config.d/40-x.jsn: its name"])
    }

    @Test("settings count as changed only if the file is newer than the last time that the agent read it")
    func reloadedSettings() {
        func finding(changed: Int, readAt: Int) -> Finding? {
            func time(_ seconds: Int) -> Timestamp {
                Timestamp(milliseconds: AgentFacts.start.milliseconds + seconds * 1000)
            }
            var facts = AgentFacts.healthy
            facts.info.settingsReadAt = time(readAt)
            let file = SettingsFacts(
                path: "/etc/larder/larder.json", isNamed: false, state: .right, modifiedAt: time(changed))
            return SettingsCheck.findings(file, facts, .units(.healthy)).first
        }
        #expect(
            finding(changed: 20, readAt: 30)
                == Finding(.ok, "settings", "/etc/larder/larder.json is valid, and the agent has read it"))
        #expect(finding(changed: 40, readAt: 30)?.level == .warning)
        #expect(
            finding(changed: 40, readAt: 30)?.title.hasSuffix("was changed 20 s ago, after the agent had read it")
                == true)
        #expect(finding(changed: 40, readAt: 30)?.advice == ["sudo systemctl reload larder.service"])
    }
}
