import LarderConfigSources
import LarderJSON
import Logging
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Log of a namespace")
struct LogTests {
    private let peer = Peer(pid: 4711, uid: 1000, command: "larder")

    private func entry(_ revision: Int, _ causes: ChangeCause...) -> PublicationLog.Entry {
        PublicationLog.Entry(
            revision: revision, digest: SnapshotDigest(known: "0123456789abcdef0123456789abcdef"), bytes: 17,
            causes: causes.isEmpty ? [ChangeCause(.host)] : causes)
    }

    @Test("a publication is logged as one line with its cause and with metadata")
    func publication() {
        let lines = LogRecorder()
        let log = PublicationLog(namespace: "shop", logger: lines.logger)
        log.add(entry(7, ChangeCause(.set, path: ["search", "limit"], peer: peer)))
        let line = lines.take().first
        #expect(line?.level == .info)
        #expect(
            line?.message
                == "namespace shop: published revision 7: set search.limit by larder, pid 4711, uid 1000")
        #expect(
            line?.fields == [
                "namespace": "shop", "revision": "7", "digest": "0123456789ab", "bytes": "17", "cause": "set",
                "peer_uid": "1000", "peer_pid": "4711", "peer_command": "larder",
            ])
    }

    @Test("the line of a publication has the reason and the login user, and replaces their control characters")
    func reason() {
        let lines = LogRecorder()
        let log = PublicationLog(namespace: "shop", logger: lines.logger)
        let peer = Peer(pid: 1, uid: 0, command: "larder", loginUID: 1000)
        log.add(entry(7, ChangeCause(.apply, path: ["search"], peer: peer, reason: "load\ntest")))
        log.add(entry(8, ChangeCause(.increment, path: ["n"])))
        let written = lines.take()
        #expect(
            written.map(\.message) == [
                "namespace shop: published revision 7: applied several changes at search by larder, pid 1, uid 0, "
                    + "login uid 1000 (load?test)",
                "namespace shop: published revision 8: incremented n",
            ])
        #expect(written.first?.fields["peer_login_uid"] == "1000")
        #expect(written.first?.fields["reason"] == "load\ntest")
    }

    @Test("each cause has its own text, and control characters in names are replaced")
    func causes() {
        let lines = LogRecorder()
        let log = PublicationLog(namespace: "a", logger: lines.logger)
        let causes = [
            ChangeCause(.refresh, origin: "http://origin/a"), ChangeCause(.rollback, revision: 3, peer: peer),
            ChangeCause(.unset, path: ["x\ny"], peer: Peer(pid: 1, uid: 0, command: "a\nb")),
        ]
        for (number, cause) in causes.enumerated() { log.add(entry(number, cause)) }
        log.add(entry(3, ChangeCause(.expiry), ChangeCause(.host)))
        let reasons = lines.take().map(\.message).map {
            $0.split(separator: ": ", maxSplits: 2).last.map(String.init) ?? ""
        }
        #expect(
            reasons == [
                "new document from http://origin/a", "rolled back to revision 3 by larder, pid 4711, uid 1000",
                "unset x?y by a?b, pid 1, uid 0", "the host files changed, and 1 more",
            ])
    }

    @Test("after five lines in a second, further revisions are joined into one line that names the newest")
    func joined() {
        let lines = LogRecorder()
        let log = PublicationLog(namespace: "a", logger: lines.logger, clock: ManualClock())
        for revision in 1...100 { log.add(entry(revision)) }
        #expect(lines.take().compactMap { $0.fields["revision"] } == ["1", "2", "3", "4", "5"])
        log.flush()
        let line = lines.take().first
        #expect(line?.message.hasPrefix("namespace a: published revision 100 and 94 earlier ones: ") == true)
        #expect(line?.fields["joined"] == "94")
    }

    @Test("a failing source is logged once per reason, and its recovery is logged with the duration of the failure")
    func source() {
        let lines = LogRecorder()
        var log = SourceLog(namespace: "a", logger: lines.logger)
        var status = NamespaceStatus(source: .init("http", at: "http://origin/a"))
        status.remoteAnswered(changed: true, now: 1_000)
        log.note(status, now: 1_000)
        #expect(lines.take().map(\.message) == ["namespace a: the source works"])
        for time in 2...50 {
            status.failed(ConfigError(.upstreamFailed, "refused"), documentSince: 1_000, now: time * 1_000)
            log.note(status, now: time * 1_000)
        }
        let line = lines.take()
        #expect(line.map(\.level) == [.warning])
        #expect(
            line.first?.message
                == "namespace a: no valid document from the source; the last good snapshot stays: refused")
        #expect(
            line.first?.fields == [
                "namespace": "a", "source": "http://origin/a", "state": "stale", "error": "refused",
            ])
        status.failed(ConfigError(.rejected, "no object"), documentSince: 1_000, now: 60_000)
        log.note(status, now: 60_000)
        #expect(lines.take().first?.fields["error"] == "no object")
        status.remoteAnswered(changed: false, now: 302_000)
        log.note(status, now: 302_000)
        let end = lines.take()
        #expect(end.map(\.level) == [.notice])
        #expect(end.first?.message == "namespace a: the source works again after 5 min")
        #expect(end.first?.fields["state"] == "fresh")
    }

    /// Returns the lines that `fail` adds to the log of a source that responded at second 1.
    private func lines(
        _ status: NamespaceStatus = NamespaceStatus(source: .init("http", at: "http://origin/a")),
        _ fail: (inout SourceLog, inout NamespaceStatus) -> Void
    ) -> [String] {
        let recorder = LogRecorder()
        var log = SourceLog(namespace: "a", logger: recorder.logger)
        var status = status
        status.remoteAnswered(changed: true, now: 1_000)
        log.note(status, now: 1_000)
        _ = recorder.take()
        fail(&log, &status)
        return recorder.take().map(\.message)
    }

    @Test("the log line of a failed source shows whether an expired document is served or no document has arrived yet")
    func expired() {
        let status = NamespaceStatus(source: .init("http", at: "http://origin/a", staleIfError: .seconds(10)))
        for (documentSince, text) in [
            (1_000, "the last document has expired (staleIfErrorSeconds) and is still served"),
            (nil, "it has not delivered a valid document yet"),
        ] {
            let logged = lines(status) { log, status in
                status.failed(ConfigError(.upstreamFailed, "refused"), documentSince: documentSince, now: 60_000)
                log.note(status, now: 60_000)
            }
            #expect(logged == ["namespace a: no valid document from the source; \(text): refused"])
        }
    }

    @Test("a source that returns documents but reports no changes is logged once, and its recovery after the result")
    func noChanges() {
        let denied = ConfigError(.upstreamFailed, "the watch was denied")
        let logged = lines { log, status in
            func record(_ change: (inout NamespaceStatus) -> Void, at second: Int) {
                change(&status)
                log.note(status, now: second * 1_000)
            }
            // The watch fails, and a read succeeds before the next attempt.
            for second in [2, 4, 6] {
                record({ $0.follows(.failing(denied)) }, at: second)
                record({ $0.failed(denied, documentSince: 1_000, now: second * 1_000) }, at: second)
                record({ $0.follows(.failing(denied)) }, at: second + 1)
                record({ $0.remoteAnswered(changed: true, now: second * 1_000) }, at: second + 1)
            }
            // The watch begins, but the document is rejected.
            record({ $0.follows(.working) }, at: 8)
            record({ $0.failed(ConfigError(.rejected, "no object"), documentSince: 1_000, now: 8_000) }, at: 8)
            record({ $0.follows(.working) }, at: 9)
            record({ $0.remoteAnswered(changed: true, now: 9_000) }, at: 9)
        }
        #expect(
            logged == [
                "namespace a: the source does not report changes; polls continue: the watch was denied",
                "namespace a: no valid document from the source; the last good snapshot stays: no object",
                "namespace a: the source works again after 7 s",
            ])
    }

    @Test("a connection for changes that fails is logged, even if no refresh has failed")
    func noChangesWithoutFailure() {
        let logged = lines { log, status in
            status.follows(.failing(ConfigError(.upstreamFailed, "the watch was denied")))
            log.note(status, now: 2_000)
            status.remoteAnswered(changed: false, now: 2_000)
            log.note(status, now: 2_000)
        }
        #expect(
            logged == ["namespace a: the source does not report changes; polls continue: the watch was denied"])
    }

    @Test("another reason with the same code is logged, but not a reason that differs only in its numbers")
    func otherReason() {
        let logged = lines { log, status in
            for (second, message) in [
                (2, "version 7 is older than version 9"), (3, "version 8 is older than version 10"), (4, "no JSON"),
                (5, "version 8 is older than version 10"), (6, "no JSON"), (700, "no JSON"),
                (701, "version 8 is older than version 10"),
            ] {
                status.failed(ConfigError(.rejected, message), documentSince: 1_000, now: second * 1_000)
                log.note(status, now: second * 1_000)
                log.note(status, now: second * 1_000)
            }
        }
        #expect(
            logged.map { String($0.split(separator: ": ").last ?? "") } == [
                "version 7 is older than version 9", "no JSON", "version 8 is older than version 10",
            ])
    }

    @Test("a source that fails with a new reason each time does not fill the log")
    func manyReasons() {
        let logged = lines { log, status in
            for index in 0..<200 {
                let reason = String(repeating: "x", count: index)
                status.failed(ConfigError(.rejected, reason), documentSince: 1_000, now: 2_000 + index)
                log.note(status, now: 2_000 + index)
            }
        }
        #expect(logged.count == 8)
    }

    @Test("a line about a schema, experiments or a failed change names its namespace in the message")
    func namespaces() {
        let lines = LogRecorder()
        let log = StoreLog(namespace: "shop", clock: ManualClock(), logger: lines.logger)
        let problem = SchemaProblem(
            path: JSONPath(["limit"]), schemaLocation: "#", keyword: "type", message: "expected an integer",
            layer: .host)
        let change = RejectedChange(subject: .files(.host), change: .recheck, problems: [problem], at: 0)
        log.rejectedBySchema(change)
        log.violatesSchema([problem])
        log.schemaUnusable("schema.json: line 3", previous: nil)
        log.schemaUnusable("schema.json: line 3", previous: "/etc/old.json")
        log.experimentsLeftOut("no name")
        log.failed("cannot apply the schema", ConfigError(.storageFailed, "no space"))
        let messages = lines.take().map(\.message)
        #expect(messages.count == 6)
        #expect(messages.allSatisfy { $0.hasPrefix("namespace shop: ") }, "\(messages)")
        #expect(
            messages.filter { $0.contains("line 3") } == [
                "namespace shop: cannot use the schema, so nothing is validated: schema.json: line 3",
                "namespace shop: cannot use the schema; the schema that was last read from /etc/old.json stays in "
                    + "force: schema.json: line 3",
            ])
        #expect(messages.last == "namespace shop: cannot apply the schema: no space")
    }

    @Test("unreadable files are logged once, and their recovery is logged")
    func files() {
        let lines = LogRecorder()
        var log = SourceLog(namespace: "a", logger: lines.logger)
        var status = NamespaceStatus(source: nil)
        for _ in 0..<3 {
            status.filesRead(.host, problem: "20.json: no JSON", now: 1)
            log.note(status, now: 1)
        }
        #expect(
            lines.take().map(\.message) == [
                "namespace a: cannot read files of layer host; its last good content stays: 20.json: no JSON"
            ])
        status.filesRead(.host, problem: nil, now: 2)
        log.note(status, now: 2)
        #expect(lines.take().map(\.message) == ["namespace a: the files of layer host are readable again"])
    }
}
