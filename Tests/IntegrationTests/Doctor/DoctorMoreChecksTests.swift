import Foundation
import LarderClient
import LarderEncoding
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Findings of larder doctor: clock, disk, sources, images and clients")
struct DoctorMoreChecksTests {
    @Test("an unsynchronized clock, a clock that was set back and a snapshot from the future are reported")
    func clocks() {
        var examination = Examination.healthy
        examination.isClockSynchronized = false
        #expect(examination.complaints.map(\.title) == ["not synchronized with a time server"])
        #expect(examination.complaints.first?.advice.first?.contains("timedatectl") == true)
        #expect(
            ClockCheck.findings(false, nil, .absent).flatMap(\.advice)
                == ["start a time service on this host, such as chronyd or ntpd"])
        examination.isClockSynchronized = true
        var facts = AgentFacts.healthy
        facts.now = Timestamp(milliseconds: AgentFacts.present.milliseconds - 7_200_000)
        examination.agent = .facts(facts)
        #expect(
            examination.complaints.map(\.title) == [
                "the clock was set back by 2 h since the agent started",
                "the publication time of namespace \"default\" is 1 h 59 min in the future",
            ])
    }

    @Test("a disk that is full, nearly full, read-only or out of inodes is reported")
    func disks() {
        func finding(_ change: (inout VolumeFacts.Capacity) -> Void) -> Finding {
            var capacity = VolumeFacts.Capacity.healthy
            change(&capacity)
            return DiskCheck.finding(VolumeFacts(purpose: "state", path: "/s", state: .capacity(capacity)))
        }
        #expect(finding { $0.freeBytes = 4096 }.level == .problem)
        #expect(finding { $0.freeBytes = 4096 }.detail.first?.hasPrefix("changes fail once the journal") == true)
        #expect(finding { $0.isReadOnly = true }.level == .problem)
        #expect(
            finding { $0.freeInodes = 0 }.title == "state /s: the file system has only 0 inodes left for new files")
        #expect(finding { $0.freeBytes = 32 << 20 }.level == .warning)
        #expect(finding { $0.freeBytes = $0.bytes / 20 - 1 }.level == .warning)
        #expect(finding { $0.freeBytes = $0.bytes / 20 }.level == .ok)
        #expect(finding { ($0.inodes, $0.freeInodes) = (0, 0) }.level == .ok, "btrfs reports no inode counts")
        func small(free: Int) -> Finding { finding { ($0.bytes, $0.freeBytes) = (1 << 20, free) } }
        #expect(small(free: 761_000).level == .ok, "the thresholds of a small file system are shares of its size")
        #expect(small(free: 90_000).level == .warning)
        #expect(small(free: 4096).level == .problem)
        let missing = DiskCheck.finding(VolumeFacts(purpose: "images", path: "/i", state: .missing))
        #expect(missing.level == .problem)
    }

    @Test("a certificate that expires within 14 days is a warning of doctor, status and status --check")
    func certificates() {
        func namespace(expiringIn milliseconds: Int) -> ConfigStatus.Namespace {
            var namespace = ConfigStatus.Namespace.followed(.fresh)
            namespace.upstream?.certificateExpiresAt = Timestamp(
                milliseconds: AgentFacts.present.milliseconds + milliseconds)
            return namespace
        }
        func titles(_ namespace: ConfigStatus.Namespace) -> [String] {
            UpstreamCheck.findings(namespace, AgentFacts.present, Hints()).map(\.title)
        }
        let day = 86_400_000
        #expect(titles(namespace(expiringIn: 14 * day)).isEmpty)
        #expect(
            titles(namespace(expiringIn: 14 * day - 1)) == [
                "default: a certificate for its source expires in 13 d 23 h"
            ])
        #expect(titles(namespace(expiringIn: -2 * day)) == ["default: a certificate for its source expired 2 d ago"])
        var named = namespace(expiringIn: day)
        named.upstream?.certificateFile = "/etc/larder/ca.pem"
        #expect(titles(named) == ["default: a certificate for its source expires in 1 d: /etc/larder/ca.pem"])
        #expect(
            UpstreamCheck.findings(named, AgentFacts.present, Hints()).first?.advice
                == ["renew /etc/larder/ca.pem; the agent reads it for each request"])
        let report = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: AgentFacts.present)
        #expect(report.text([namespace(expiringIn: day)]).contains("a certificate for its source expires in 1 d"))
        #expect(report.table([namespace(expiringIn: day)]).hasSuffix("a certificate for its source expires in 1 d"))
        // The times of the fixture are in the past.
        #expect(StatusCheck.report([namespace(expiringIn: 0)], nil).status.rawValue == 12)
        // A certificate that has expired is the cause of a failed poll.
        var failing = namespace(expiringIn: -day)
        failing.state = .stale
        failing.lastError = .init(name: "upstreamFailed", message: "handshake failed", at: AgentFacts.present)
        #expect(titles(failing).map { $0.contains("expired") } == [true, false])
        #expect(report.table([failing]).contains("  a certificate for its source expired 1 d ago; 1 more: "))
        #expect(
            StatusCheck.report([failing], nil).headline.hasPrefix(
                "warning: default: a certificate for its source expired "))
    }

    @Test("a certificate for an origin of images that expires within 14 days is a warning, too")
    func imageCertificates() {
        func images(expiringIn milliseconds: Int) -> AgentStats.Images {
            var images = AgentStats.Images()
            images.certificateExpiresAt = Timestamp(
                milliseconds: AgentFacts.present.milliseconds + milliseconds)
            return images
        }
        let day = 86_400_000
        func titles(_ images: AgentStats.Images?) -> [String] {
            ImageCheck.expiry(of: images, AgentFacts.present).map(\.title)
        }
        #expect(titles(nil).isEmpty && titles(AgentStats.Images()).isEmpty)
        #expect(titles(images(expiringIn: 14 * day)).isEmpty)
        #expect(
            titles(images(expiringIn: 14 * day - 1)) == ["a certificate for an origin of images expires in 13 d 23 h"])
        #expect(titles(images(expiringIn: -day)) == ["a certificate for an origin of images expired 1 d ago"])
        // The times of the fixture are in the past.
        #expect(StatusCheck.report([.healthy], nil, images: images(expiringIn: day)).status.rawValue == 12)
        var examination = Examination.healthy
        var facts = AgentFacts.healthy
        var stats = AgentStats.Result.healthy
        stats.images = images(expiringIn: day)
        facts.stats = .success(stats)
        examination.agent = .facts(facts)
        #expect(examination.complaints.map(\.title) == ["a certificate for an origin of images expires in 1 d"])
    }

    @Test("`status --check` is at least a warning for a user who may not see all namespaces")
    func partialStatus() {
        var info = AgentFacts.healthy.info
        #expect(StatusCheck.mayMissNamespaces(info))
        info.rights.append(.monitor)
        #expect(!StatusCheck.mayMissNamespaces(info))
        #expect(StatusCheck.report([.healthy], nil, isPartial: false).status == .success)
        #expect(StatusCheck.report([.healthy], nil, isPartial: false).headline == "ok: no problems found")
        #expect(StatusCheck.report([.healthy], nil, isPartial: true).status.rawValue == 12)
        var failing = ConfigStatus.Namespace.healthy
        failing.writeError = ConfigStatus.Problem(name: "storageFailed", message: "no space", at: AgentFacts.start)
        #expect(StatusCheck.report([failing], nil, isPartial: true).status == .failure)
        // On a terminal, the note is printed only if the first line does not contain it.
        #expect(StatusCheck.saysPartial(StatusCheck.report([.healthy], nil, isPartial: true)))
        #expect(!StatusCheck.saysPartial(StatusCheck.report([failing], nil, isPartial: true)))
    }

    @Test("`status --check` fails if the state cannot be written to disk or the file system is full")
    func failingDisk() {
        func volume(_ state: VolumeFacts.State) -> VolumeFacts {
            VolumeFacts(purpose: "state", path: "/s", state: state)
        }
        var capacity = VolumeFacts.Capacity.healthy
        #expect(StatusCheck.report([.healthy], nil, [volume(.capacity(capacity))]).status == .success)
        capacity.freeBytes = 4096
        #expect(StatusCheck.report([.healthy], nil, [volume(.capacity(capacity))]).status == .failure)
        #expect(
            StatusCheck.report([.healthy], nil, [volume(.missing)]).status == .success, "it may be missing only here")
        var shop = ConfigStatus.Namespace.healthy
        shop.namespace = "shop"
        shop.writeError = ConfigStatus.Problem(
            name: "storageFailed", message: "cannot write /s/x: no space", at: AgentFacts.start)
        #expect(StatusCheck.report([.healthy, shop], nil).status == .failure)
        #expect(
            StatusCheck.report([.healthy, shop], nil, [volume(.capacity(capacity))]).headline
                == "problem: state /s: the file system is full (4.0 kB of 42 GB free): changes fail once the journal has no room, but "
                + "the agent still serves the current configuration; 1 more", "the cause comes first")
        // A request that fails because of the disk names the directory, its free space and what to do.
        let find = "find what uses the space: sudo du -xh --max-depth=1 \"$(findmnt -n -o TARGET -T"
        let full = [volume(.capacity(.healthy)), volume(.capacity(capacity))]
        #expect(
            DiskCheck.advice(full, Hints())
                == "state /s: the file system is full (4.0 kB of 42 GB free); \(find) /s)\" | sort -h")
        let images = VolumeFacts(purpose: "images", path: "/i", state: .capacity(capacity))
        #expect(
            DiskCheck.advice([images], Hints(socket: "/a"))
                == "images /i: the file system is full (4.0 kB of 42 GB free); \(find) /i)\" | sort -h; remove images that "
                + "are not pinned: larder image clear --socket /a")
        #expect(DiskCheck.advice([volume(.capacity(.healthy)), volume(.hidden("denied"))], Hints()) == nil)
        let report = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: AgentFacts.present)
            .text([shop])
        #expect(report.contains("  disk        storageFailed: cannot write /s/x: no space"), "\(report)")
        var facts = AgentFacts.healthy
        facts.status = .success(ConfigStatus.Result(namespaces: [shop]))
        var examination = Examination.healthy
        examination.agent = .facts(facts)
        #expect(examination.complaints.map(\.title) == ["shop cannot write its state to disk"])
    }

    @Test("each namespace that is not up to date is reported with its cause, duration and a command")
    func namespaces() {
        var shop = ConfigStatus.Namespace.healthy
        shop.namespace = "shop"
        shop.state = .stale
        shop.since = Timestamp(milliseconds: AgentFacts.present.milliseconds - 7_200_000)
        shop.lastError = ConfigStatus.Problem(
            name: "upstreamFailed", message: "cannot connect", at: AgentFacts.start)
        shop.upstream = ConfigStatus.Upstream(
            kind: "http", location: "https://config.example.org/shop.json", version: nil, etag: nil,
            lastAttemptAt: nil, lastSuccessAt: nil, nextAttemptAt: nil, consecutiveFailures: 3)
        shop.quarantine = ConfigStatus.Quarantine(version: "7", at: AgentFacts.start, members: 100, removed: 95)
        shop.hold = ConfigStatus.Hold(revision: 40, rejectedVersion: nil, since: AgentFacts.start)
        var facts = AgentFacts.healthy
        facts.status = .success(ConfigStatus.Result(namespaces: [.healthy, shop]))
        let findings = UpstreamCheck.findings(facts)
        #expect(
            findings.map(\.title) == [
                "default is up to date", "shop has been stale for 2 h; revision 41 is still served",
                "shop rejected version 7, which would remove 95 of 100 members",
                "shop was rolled back to revision 40, which holds back newer content of its sources",
            ])
        #expect(findings.map(\.level) == [.ok, .warning, .warning, .warning])
        #expect(
            findings.flatMap(\.advice) == [
                "poll the source now: larder refresh --namespace shop",
                "if this is intended: larder refresh --force --namespace shop "
                    + "(or, if a client pushed it: larder push FILE --force --namespace shop)",
                "end the rollback: larder rollback --release --namespace shop",
            ])
        #expect(findings[1].detail.first == "cannot connect")
        shop.state = .failed
        facts.status = .success(ConfigStatus.Result(namespaces: [shop]))
        #expect(UpstreamCheck.findings(facts).first?.level == .problem)
        facts.status = .failure(Failure(.denied, "you may not"))
        #expect(UpstreamCheck.findings(facts) == [Finding(.skipped, "upstream", "not checked: you may not")])
    }

    @Test("while a source is polled again, its previous failures and a missing first response are reported")
    func polledAgain() {
        var shop = ConfigStatus.Namespace.healthy
        shop.state = .refreshing
        shop.upstream = ConfigStatus.Upstream(
            kind: "http", location: "https://config.example.org/shop.json", version: nil, etag: nil,
            lastAttemptAt: nil, lastSuccessAt: AgentFacts.start, nextAttemptAt: nil, consecutiveFailures: 0)
        func finding(_ change: (inout ConfigStatus.Namespace) -> Void) -> Finding? {
            var namespace = shop
            change(&namespace)
            return UpstreamCheck.findings(namespace, AgentFacts.present, Hints()).first
        }
        #expect(finding { _ in } == nil)
        #expect(finding { $0.upstream = nil } == nil)
        let silent = finding { $0.upstream?.lastSuccessAt = nil }
        #expect(silent?.level == .warning)
        #expect(
            silent?.title == "default waits for the first response of its source; revision 41 is still served")
        // After a start with a document, the first poll is due. This is no alarm, but the document is not confirmed.
        let due = finding {
            $0.upstream?.lastSuccessAt = nil
            $0.layers = [.remote]
        }
        #expect(due?.level == .ok)
        #expect(
            due?.title == "default awaits the first poll since the agent started; revision 41 is still served")
        #expect(due?.detail.last?.contains("rejected before the start") == true)
        let failing = finding { $0.upstream?.consecutiveFailures = 1 }
        #expect(failing?.level == .problem)
        #expect(
            failing?.title == "default is polling its source again after 1 failed poll; revision 41 is still served")
        let stale = finding {
            $0.upstream?.consecutiveFailures = 2
            $0.layers = [.remote]
        }
        #expect(stale?.level == .warning)
    }

    @Test("a namespace whose source cannot report changes yet is not called up to date, and is no warning")
    func connecting() {
        var facts = AgentFacts.healthy
        var namespace = ConfigStatus.Namespace.followed(.refreshing)
        func findings() -> [Finding] {
            facts.status = .success(ConfigStatus.Result(namespaces: [namespace]))
            return UpstreamCheck.findings(facts)
        }
        #expect(findings().map(\.title) == ["default waits until its source can report changes; polls succeed"])
        #expect(findings().map(\.level) == [.ok])
        namespace.layers[0].problem = "10.json: invalid"
        #expect(findings().map(\.level) == [.ok, .warning], "the layer is not hidden by the state")
        #expect(findings().last?.title == "default, layer remote: 10.json: invalid")
        namespace.state = .stale
        let stale = findings()
        #expect(stale.map(\.level) == [.warning] && stale.first?.detail.first == "layer remote: 10.json: invalid")
        (namespace.state, namespace.layers[0].problem) = (.refreshing, nil)
        namespace.since = AgentFacts.present
        #expect(findings().map(\.title) == ["default is up to date"], "the state is from a poll that began later")
    }

    @Test("if polls succeed but changes cannot be reported, doctor advises to correct that error, not to poll")
    func noChanges() {
        func finding(_ change: (inout ConfigStatus.Namespace) -> Void) -> Finding? {
            var namespace = ConfigStatus.Namespace.followed(.stale)
            namespace.lastError = ConfigStatus.Problem(
                name: "upstreamFailed", message: "the watch was denied", at: AgentFacts.start)
            namespace.upstream?.watchError = "the watch was denied"
            change(&namespace)
            return UpstreamCheck.findings(namespace, AgentFacts.present, Hints()).first
        }
        let poll = ["poll the source now: larder refresh"]
        for failures in [0, 1] {
            let denied = finding { $0.upstream?.consecutiveFailures = failures }
            #expect(denied?.level == .warning)
            #expect(
                denied?.title
                    == "default has been stale for 1 min, because its source cannot report changes; polls succeed")
            #expect(denied?.detail.first == "the watch was denied")
            #expect(denied?.advice.first?.contains("the right to watch") == true)
        }
        let polling = finding { ($0.state, $0.since) = (.refreshing, AgentFacts.present) }
        #expect(polling?.level == .warning)
        #expect(polling?.title == "default is polling its source, which cannot report changes")
        #expect(finding { $0.upstream?.consecutiveFailures = 2 }?.advice == poll, "polls fail, too")
        let failedPoll = finding {
            $0.upstream?.consecutiveFailures = 1
            $0.lastError?.message = "connection refused"
        }
        #expect(failedPoll?.advice == poll, "the last poll failed")
        #expect(finding { $0.upstream?.watchError = nil }?.advice == poll, "the source keeps no connection")
        // No poll has succeeded since the watch failed first.
        func first(_ state: ConfigState, kind: String = "etcd") -> Finding? {
            finding {
                $0.state = state
                $0.upstream?.kind = kind
                $0.upstream?.lastSuccessAt = .early
                $0.upstream?.consecutiveFailures = 1
            }
        }
        #expect(first(.stale)?.title == "default has been stale for 1 min, because its source cannot report changes")
        #expect(first(.stale)?.advice.first?.hasPrefix("if the next poll succeeds, correct this error: ") == true)
        #expect(first(.refreshing)?.title == polling?.title)
        #expect(first(.refreshing)?.advice == first(.stale)?.advice)
        #expect(first(.stale, kind: "sse")?.advice == poll, "a poll may open the stream")
    }

    @Test("the advice after a rejected push depends on whether the namespace has a source")
    func rejectedPushes() {
        var shop = ConfigStatus.Namespace.healthy
        shop.namespace = "shop"
        shop.rejected = ConfigStatus.Rejection(
            version: "4", reason: "version 4 is older", canForce: true, at: AgentFacts.start)
        func advice() -> [String] { UpstreamCheck.findings(shop, AgentFacts.present, Hints()).flatMap(\.advice) }
        #expect(
            advice() == [
                "correct the document and push it again, or accept it: larder push FILE --force --namespace shop"
            ])
        shop.quarantine = ConfigStatus.Quarantine(version: nil, at: AgentFacts.start, members: 100, removed: 95)
        #expect(advice() == ["if this is intended: larder push FILE --force --namespace shop"])
        shop.quarantine = nil
        shop.upstream = ConfigStatus.Upstream(
            kind: "http", location: "https://config.example.org/shop.json", version: nil, etag: nil,
            lastAttemptAt: nil, lastSuccessAt: AgentFacts.start, nextAttemptAt: nil, consecutiveFailures: 0)
        #expect(
            advice() == [
                "correct the document at the source, or accept it: larder refresh --force --namespace shop "
                    + "(or, if a client pushed it: larder push FILE --force --namespace shop)"
            ])
        shop.rejected?.canForce = false
        #expect(advice() == ["correct the document at the source"])
    }

    @Test("many failed image requests, and refused connections, are reported")
    func imagesAndClients() {
        var facts = AgentFacts.healthy
        var stats = AgentStats.Result.healthy
        stats.images?.failures = 20
        stats.images?.misses = 20
        stats.images?.hits = 5
        stats.traffic.connectionsRefused = 1
        facts.stats = .success(stats)
        var examination = Examination.healthy
        examination.agent = .facts(facts)
        #expect(
            examination.complaints.map(\.title) == [
                "3 images, 1.0 MB of 1.0 GB; 20 downloads failed in 25 requests since the agent started",
                "0 of 16384 connections, 524288 open files allowed; 1 client was refused since the agent started",
            ])
        facts.info.imageDirectory = nil
        #expect(ImageCheck.finding(facts).level == .ok)
        facts.info.imageProblem = "the disk of the cache is full"
        let unusable = ImageCheck.finding(facts)
        #expect(unusable.level == .problem)
        #expect(unusable.title == "the cache cannot be used: the disk of the cache is full")
        #expect(unusable.advice == ["correct the problem, then:", "restart the agent"])
        #expect(
            ImageCheck.finding(facts, .units(.healthy)).advice.last == "sudo systemctl restart larder.service")
        stats.traffic.connectionsOpen = 16000
        facts.stats = .success(stats)
        #expect(
            DescriptorCheck.finding(facts, openFiles: nil, .absent).title.hasSuffix("more than 90 % are in use"))
        #expect(DescriptorCheck.finding(.healthy, openFiles: 1024, .absent).level == .warning)
        #expect(
            DescriptorCheck.finding(.healthy, openFiles: 1024, .units(.healthy)).advice == [
                "set LimitNOFILE=65536 in the unit (sudo systemctl edit larder.service), or run: ulimit -n 65536",
                "sudo systemctl restart larder.service",
            ])
        facts.info.threadProblem = "cannot start threads"
        #expect(
            ThreadCheck.findings(facts.info, .units(.healthy)).first?.advice.first
                == "list the threads of its user: ps -L -u $(ps -o uid= -p 612)")
    }

    @Test("snapshots that were damaged and set aside are a warning until their files are removed")
    func damagedSnapshots() throws {
        let directory = NSTemporaryDirectory() + "/larder-damaged-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let generations = directory + "/config/shop/generations"
        try FileManager.default.createDirectory(atPath: generations, withIntermediateDirectories: true)
        let file = generations + "/0000000000000007.json.damaged"
        for path in [file, generations + "/0000000000000006.json"] {
            #expect(FileManager.default.createFile(atPath: path, contents: Data("{}".utf8)))
        }
        let volume = VolumeFacts.probe(at: directory, purpose: "state")
        #expect(volume.damagedSnapshots == [VolumeFacts.DamagedFile(namespace: "shop", path: file)])
        #expect(DiskCheck.damage(volume).map(\.level) == [.warning])
        #expect(DiskCheck.damage(volume).map(\.title) == ["shop: 1 saved snapshot was damaged and set aside"])
        let command = "larder explain --overrides --namespace shop --socket /a"
        #expect(DiskCheck.damage(volume, Hints(socket: "/a")).first?.advice.first?.hasSuffix(command) == true)
        #expect(DiskCheck.findings([volume], .healthy).contains { $0.detail == [file] })
        #expect(StatusCheck.report([.healthy], nil, [volume]).headline.contains(file))
        try FileManager.default.removeItem(atPath: file)
        #expect(VolumeFacts.probe(at: directory, purpose: "state").damagedSnapshots.isEmpty)
    }

    @Test("a damaged journal is a warning with its namespace until the copy of the journal is removed")
    func damagedJournal() throws {
        let directory = NSTemporaryDirectory() + "/larder-damaged-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        for namespace in ["billing", "shop"] {
            let path = "\(directory)/config/\(namespace)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            #expect(FileManager.default.createFile(atPath: path + "/journal", contents: Data()))
        }
        let file = directory + "/config/shop/journal.damaged"
        #expect(FileManager.default.createFile(atPath: file, contents: Data("x".utf8)))
        let volume = VolumeFacts.probe(at: directory, purpose: "state")
        #expect(volume.damagedJournals == [VolumeFacts.DamagedFile(namespace: "shop", path: file)])
        let findings = DiskCheck.damage(volume)
        #expect(findings.map(\.level) == [.warning])
        #expect(
            findings.first?.title
                == "shop: its journal was damaged or cut off by a crash, so its last changes may be missing")
        #expect(findings.first?.detail == [file])
        #expect(findings.first?.advice.first?.hasSuffix("larder explain --overrides --namespace shop") == true)
        #expect(findings.first?.advice.last?.hasSuffix("sudo rm \(file.shellWord)") == true)
        #expect(DiskCheck.findings([volume], .healthy).contains { $0.detail == [file] })
        #expect(StatusCheck.report([.healthy], nil, [volume]).headline.contains(file))
        try FileManager.default.removeItem(atPath: file)
        #expect(VolumeFacts.probe(at: directory, purpose: "state").damagedJournals.isEmpty)
    }

    @Test("problems that the agent lists are reported with advice, and make `status --check` fail")
    func agentProblems() {
        var facts = AgentFacts.healthy
        #expect(AgentProblemCheck.findings(facts.info).isEmpty)
        for (name, check) in [
            ("namespace", "settings"), ("imageIndex", "images"), ("settingsCopy", "settings"), ("report", "report"),
            ("later", "agent"),
        ] {
            facts.info.problems = [AgentInfo.Problem(name: name, message: "cannot write /x")]
            // The loss of its reports does not impair the host.
            #expect(StatusCheck.report([.healthy], facts.info).status == (name == "report" ? .warnings : .failure))
            var examination = Examination.healthy
            examination.agent = .facts(facts)
            #expect(examination.complaints.map(\.check) == [check])
            let finding = examination.complaints.first
            #expect(([finding?.title] + (finding?.detail ?? [])).contains { $0?.contains("cannot write /x") == true })
            if name != "later" { #expect(finding?.advice.isEmpty == false) }
            let plain = Style(isTerminal: false, noColor: "", terminal: "")
            let line = StatusReport(style: plain, now: AgentFacts.present).problems(facts.info).first
            #expect(line?.hasSuffix(": cannot write /x") == true)
            #expect(line?.hasPrefix("cannot write /x") == false)
        }
    }

    @Test("requests refused by the limits per user are reported with the command that lists the clients")
    func limitsPerUser() {
        var facts = AgentFacts.healthy
        var stats = AgentStats.Result.healthy
        stats.traffic.refused.subscriptions = 1
        stats.traffic.refused.queuedConnections = 2
        facts.stats = .success(stats)
        let finding = DescriptorCheck.finding(facts, openFiles: nil, .absent)
        #expect(finding.level == .warning)
        #expect(
            finding.title
                == "0 of 16384 connections; the limits per user refused 1 subscription, 2 clients that did not read since "
                + "the agent started")
        stats.traffic.connectionsRefused = 3
        stats.traffic.refused.connectionsPerUser = 3
        facts.stats = .success(stats)
        let turnedAway = DescriptorCheck.finding(facts, openFiles: nil, .absent)
        #expect(turnedAway.title == "0 of 16384 connections; 3 clients were refused since the agent started")
        #expect(turnedAway.advice.first?.contains("larder clients") == true)
    }
}
