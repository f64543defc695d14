import LarderClient
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Findings of larder doctor do not contradict each other")
struct DoctorContradictionTests {
    /// The titles of the findings that are ok, of one check, after changes of a healthy host.
    private func ok(_ check: String, _ change: (inout Examination, inout AgentFacts) -> Void) -> [String] {
        var (examination, facts) = (Examination.healthy, AgentFacts.healthy)
        change(&examination, &facts)
        if case .facts = examination.agent { examination.agent = .facts(facts) }
        return examination.report.findings.filter { $0.check == check && $0.level == .ok }.map(\.title)
    }

    private static func schema(_ digest: String?, _ problem: String? = nil) -> ConfigStatus.SchemaState {
        ConfigStatus.SchemaState(path: "/etc/s.json", enforce: "reject", digest: digest, problem: problem, errors: [])
    }

    @Test("a disk without room for new images is a warning, and neither the disk nor the cache is called ok")
    func imageSpace() {
        var facts = AgentFacts.healthy
        let cause = "its file system has 5 bytes free, and images.minimumFreeBytes is 6"
        facts.info.problems = [AgentInfo.Problem(name: "imageSpace", message: cause)]
        var examination = Examination.healthy
        examination.volumes.append(
            VolumeFacts(purpose: "images", path: "/var/cache/larder/images", state: .capacity(.healthy)))
        examination.agent = .facts(facts)
        let title = "the image cache has no disk space for new images"
        #expect(examination.complaints.map(\.title) == [title])
        #expect(examination.complaints.first?.detail == [cause])
        #expect(examination.report.findings.count { $0.check == ImageCheck.name } == 1)
        #expect(examination.report.findings.count { $0.check == DiskCheck.name } == 1)
        #expect(StatusCheck.report([.healthy], facts.info).headline == "warning: \(title): \(cause)")
    }

    @Test("a namespace with a problem of its schema or of its disk is not called up to date")
    func upToDate() {
        let problem = ConfigStatus.Problem(name: "storageFailed", message: "no space", at: AgentFacts.start)
        let refusal = ConfigStatus.SchemaRejection(layer: "host", version: nil, at: AgentFacts.start, errors: [])
        let changes: [(inout ConfigStatus.Namespace) -> Void] = [
            { $0.schema = Self.schema(nil, "/etc/s.json: there is no such file") }, { $0.schemaRejection = refusal },
            { $0.writeError = problem },
        ]
        for change in changes {
            var shop = ConfigStatus.Namespace.healthy
            shop.namespace = "shop"
            change(&shop)
            let namespaces = [ConfigStatus.Namespace.healthy, shop]
            let titles = ok("upstream") { $1.status = .success(ConfigStatus.Result(namespaces: namespaces)) }
            #expect(titles == ["default is up to date"])
        }
    }

    @Test("a file that the settings name and that is missing has the same consequence in all findings")
    func missingSchema() {
        var shop = ConfigStatus.Namespace.healthy
        shop.schema = Self.schema(nil, "/etc/s.json: there is no such file")
        var facts = AgentFacts.healthy
        facts.status = .success(ConfigStatus.Result(namespaces: [shop]))
        var examination = Examination.healthy
        examination.agent = .facts(facts)
        examination.settings?.state = .wrong(["/etc/s.json: there is no such file"])
        let complaints = examination.complaints
        // The check of the namespaces rates the consequence, as `larder status --check` does.
        #expect(complaints.map(\.level) == [.warning, .problem])
        #expect(
            complaints.map(\.title) == [
                "files that the settings name are missing or invalid",
                "default: the schema cannot be used, so nothing is validated",
            ])
        #expect(
            complaints.first?.advice == [
                "correct them; the agent uses what it has read from these files before, if anything"
            ])
        // Without an agent, nothing is in use.
        examination.agent = .failed(AgentReply.Failure(kind: .silent, reason: "none"))
        #expect(examination.complaints.first?.level == .problem)
        #expect(examination.complaints.first?.advice == ["correct them"])
    }

    @Test("a schema in force is not called valid if the check of the settings reports its file")
    func changedSchema() {
        var shop = ConfigStatus.Namespace.healthy
        shop.schema = Self.schema("sha256:00")
        func titles(_ state: SettingsFacts.State) -> [String] {
            ok("schema") {
                $1.status = .success(ConfigStatus.Result(namespaces: [shop]))
                $0.settings?.state = state
            }
        }
        let fine = ["default: in force, and nothing was rejected since the agent started"]
        #expect(titles(.right) == fine)
        for place in [":", ":1:2:", "#/type:"] { #expect(titles(.wrong(["/etc/s.json\(place) broken"])) == []) }
        #expect(titles(.wrong(["/etc/s.json5: broken"])) == fine)
    }

    @Test("a file system on which the agent cannot write is not called ok")
    func disk() {
        #expect(ok("disk") { _, _ in }.count == 1)
        var shop = ConfigStatus.Namespace.healthy
        shop.writeError = ConfigStatus.Problem(name: "storageFailed", message: "I/O error", at: AgentFacts.start)
        let images = VolumeFacts(purpose: "images", path: "/i", state: .capacity(.healthy))
        let titles = ok("disk") {
            $1.status = .success(ConfigStatus.Result(namespaces: [shop]))
            $0.volumes.append(images)
        }
        #expect(titles.count == 1 && titles.first?.hasPrefix("images /i: ") == true, "\(titles)")
        let withoutImages = ok("disk") {
            $1.info.imageProblem = "the index is damaged"
            $0.volumes.append(images)
        }
        #expect(withoutImages.count == 1 && withoutImages.first?.hasPrefix("state ") == true, "\(withoutImages)")
    }

    @Test("if the connection is denied although the permissions allow it, the connection is the problem")
    func deniedConnection() {
        for kind in [AgentReply.Failure.Kind.denied, .noSocket] {
            var examination = Examination.healthy
            examination.agent = .failed(AgentReply.Failure(kind: kind, reason: "reason"))
            #expect(examination.report.findings.allSatisfy { $0.check != "socket" })
            #expect(examination.complaints.first { $0.check == "connection" }?.level == .problem)
        }
    }

    @Test("the command that reloads the settings fits how the agent runs")
    func reload() {
        var facts = AgentFacts.healthy
        #expect(ServiceFacts.absent.reloadCommands(of: facts) == ["send the agent SIGHUP"])
        facts.visiblePID = 612
        let kill = ["as the user of the agent or root: kill -HUP 612"]
        #expect(ServiceFacts.absent.reloadCommands(of: facts) == kill)
        #expect(ServiceFacts.another.reloadCommands(of: facts) == kill)
        #expect(ServiceFacts.units(.down()).reloadCommands(of: facts) == kill, "systemd did not start the agent")
        let systemctl = ["sudo systemctl reload larder.service"]
        #expect(ServiceFacts.units(.healthy).reloadCommands(of: facts) == systemctl)
        #expect(ServiceFacts.units(.down()).reloadCommands(of: nil) == systemctl)
        #expect(ServiceFacts.absent.reloadCommands(of: nil) == ["send the agent SIGHUP"])
    }

    @Test("settings that the agent rejected are reported with the age of those in effect")
    func age() {
        var facts = AgentFacts.healthy
        facts.info.settingsProblem = "/etc/larder/larder.json:1:3: expected a value"
        var examination = Examination.healthy
        examination.agent = .facts(facts)
        #expect(
            examination.complaints.first?.title
                == "the agent runs with earlier settings (read 1 min ago), because it rejected the settings file")
    }
}
