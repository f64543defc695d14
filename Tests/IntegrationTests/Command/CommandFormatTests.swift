import Foundation
import LarderEncoding
import LarderJSON
import LarderClient
import LarderProtocol
import Testing

@testable import LarderCommand

@Suite("Output of the command line")
struct CommandFormatTests {
    private let now = Timestamp(milliseconds: 1_800_000_000_000)

    private func before(_ seconds: Int) -> Timestamp { Timestamp(milliseconds: now.milliseconds - seconds * 1000) }

    @Test("scalars are printed without quotes, objects pretty or compact, and numbers with their original text")
    func values() throws {
        #expect(ValueFormat.pretty.text("a \"b\"") == "a \"b\"")
        #expect(ValueFormat.pretty.text(try JSONValue(parsing: "0.1000")) == "0.1000")
        #expect(ValueFormat.pretty.text(true) == "true")
        #expect(ValueFormat.pretty.text(.null) == "null")
        let value: JSONValue = ["a": 1, "b": [], "c": [1, ["d\n": [:]]]]
        #expect(
            ValueFormat.pretty.text(value) == """
                {
                  "a": 1,
                  "b": [],
                  "c": [
                    1,
                    {
                      "d\\n": {}
                    }
                  ]
                }
                """)
        #expect(ValueFormat.compact.text(value) == #"{"a":1,"b":[],"c":[1,{"d\n":{}}]}"#)
    }

    @Test("control characters are escaped on a terminal and unchanged in a pipe")
    func controls() {
        #expect(ValueFormat.pretty.text("a\u{1B}[2J\nb", isTerminal: true) == "a\\u{1B}[2J\nb")
        #expect(ValueFormat.pretty.text("a\u{1B}[2J\nb") == "a\u{1B}[2J\nb")
        #expect("x\r\n\u{202E}y\u{9B}".printable == "x\\r\\n\\u{202E}y\\u{009B}")
        #expect("schön 😀".printable == "schön 😀")
    }

    @Test("watch prints one line per value")
    func lines() {
        #expect(ValueFormat.line(nil) == "")
        #expect(ValueFormat.line("plain") == "plain")
        #expect(ValueFormat.line("two\nlines") == #""two\nlines""#)
        #expect(ValueFormat.line(["a": [1, 2]]) == #"{"a":[1,2]}"#)
        let snapshot = LarderSnapshot(value: nil, revision: 3, epoch: "e", state: .stale, skipped: 2, namespace: "web")
        #expect(
            WatchCommand.json(snapshot).compactText
                == #"{"namespace":"web","epoch":"e","revision":3,"state":"stale","skipped":2,"exists":false}"#)
    }

    @Test("durations, sizes and counts are formatted for people")
    func human() {
        #expect(Human.ago(milliseconds: 400) == "just now")
        #expect(Human.ago(milliseconds: -5000) == "just now")
        #expect(Human.ago(milliseconds: 35_000) == "35 s ago")
        #expect(Human.span(milliseconds: 90_000) == "1 min 30 s")
        #expect(Human.span(milliseconds: 1_260_000) == "21 min")
        #expect(Human.span(milliseconds: 7_500_000) == "2 h 5 min")
        #expect(Human.span(milliseconds: 86_400_000 * 3 + 3_600_000 * 4) == "3 d 4 h")
        #expect(Human.elapsed(milliseconds: 40) == "0.0 s")
        #expect(Human.elapsed(milliseconds: 9999) == "9.9 s")
        #expect(Human.elapsed(milliseconds: 90_000) == "1 min 30 s")
        #expect(Human.ahead(milliseconds: 35_000) == "in 35 s")
        #expect(Human.ahead(milliseconds: -1) == "now")
        #expect(Human.bytes(999) == "999 B")
        #expect(Human.bytes(1234) == "1.2 kB")
        #expect(Human.bytes(38_400) == "38 kB")
        #expect(Human.bytes(999_999) == "999 kB")
        #expect(Human.bytes(1_000_000) == "1.0 MB")
        #expect(Human.bytes(2_500_000_000) == "2.5 GB")
        #expect(Human.bytes(12_000_000_000_000) == "12.0 TB")
        #expect(Human.count(1, "failure", "failures") == "1 failure")
    }

    private func status() -> ConfigStatus.Namespace {
        ConfigStatus.Namespace(
            namespace: "default", state: .stale, since: before(7500), revision: 41, epoch: "0123456789abcdef",
            digest: "sha256:" + String(repeating: "ab", count: 32), bytes: 1234, publishedAt: before(10_800),
            ageMilliseconds: 7_500_000, durability: "full",
            lastError: .init(name: "upstreamFailed", message: "connection refused\u{1B}[31m", at: before(35)),
            rejected: .init(version: "16", reason: "older than 17, which is held", canForce: true, at: before(3600)),
            upstream: .init(
                kind: "http", location: "https://config.example.org/a.json", version: "17", etag: "\"x\"",
                lastAttemptAt: before(35), lastSuccessAt: before(7500), nextAttemptAt: before(-25),
                consecutiveFailures: 5),
            layers: [
                .init(
                    name: "host", present: true, bytes: 412, origin: "/etc/larder/config.d", updatedAt: before(86_400),
                    problem: "10-a.json: unexpected end"),
                .init(name: "remote", present: true, bytes: 1000, origin: "http", updatedAt: nil, problem: nil),
                .init(name: "override", present: false, bytes: 2, origin: "socket", updatedAt: nil, problem: nil),
            ])
    }

    @Test("status prints the state of a namespace first, then the details")
    func statusReport() {
        let plain = Style(isTerminal: false, noColor: "", terminal: "xterm")
        #expect(
            StatusReport(style: plain, now: now).text([status()]) == """
                default  stale for 2 h 5 min, since \(before(7500).local)
                  snapshot    revision 41, 1.2 kB, published 3 h ago (\(before(10_800).local))
                              epoch 0123456789abcdef, sha256:abababababab…, durability full
                  confirmed   by its source 2 h 5 min ago (\(before(7500).local))
                  last error  upstreamFailed: connection refused\\u{1B}[31m
                              35 s ago (\(before(35).local))
                  rejected    version 16: older than 17, which is held
                              1 h ago (\(before(3600).local))
                  source      http https://config.example.org/a.json
                              current version 17, etag "x"
                              last success 2 h 5 min ago (\(before(7500).local))
                              5 failures since, the last 35 s ago (\(before(35).local))
                              next attempt in 25 s (\(before(-25).local))
                  layers      host        412 B  /etc/larder/config.d, changed 1 d ago (\(before(86_400).local))
                                10-a.json: unexpected end
                              remote     1.0 kB  http
                              override    empty  socket
                """)
    }

    @Test("status without --long prints one line per namespace, with the first reason and the number of others")
    func statusTable() {
        var second = status()
        second.namespace = "web"
        second.state = .fresh
        second.since = before(60)
        second.revision = 7
        (second.lastError, second.rejected, second.upstream, second.layers) = (nil, nil, nil, [])
        var third = second
        (third.namespace, third.state, third.revision) = ("shop", .initializing, 0)
        let plain = Style(isTerminal: false, noColor: "", terminal: "xterm")
        let columns = StatusReport(style: plain, now: now, hints: Hints(socket: "/s")).table([status(), second, third])
            .split(separator: "\n").map { $0.split(separator: /\ {2,}/).map(String.init) }
        #expect(
            columns == [
                ["NAMESPACE", "STATE", "SINCE", "FOR", "REVISION", "VERSION", "SOURCE", "REASON"],
                [
                    "default", "stale", before(7500).local, "2 h 5 min", "41", "17",
                    "http https://config.example.org/a.json",
                    "connection refused\\u{1B}[31m; 2 more: larder status --long --socket /s",
                ],
                ["web", "fresh", before(60).local, "1 min", "7", "-", "-"],
                [
                    "shop", "initializing", before(60).local, "1 min", "-", "-", "-",
                    "its source has not responded yet",
                ],
            ])
        // Colors do not count for the width of a column.
        let colored = StatusReport(style: Style(isTerminal: true, noColor: "", terminal: "xterm"), now: now)
        let uncolored = Style.sequences.reduce(colored.table([status(), second])) { $0.replacing($1, with: "") }
        #expect(uncolored == StatusReport(style: plain, now: now).table([status(), second]))
    }

    @Test("the reasons in the table of status are shortened to the width of a terminal")
    func narrowTable() {
        let style = Style(isTerminal: true, noColor: "", terminal: "xterm")
        let report = StatusReport(style: style, now: now, hints: Hints(socket: "/s"))
        let lines = report.table([status()], width: 140).split(separator: "\n").map(String.init)
        #expect(lines.map(\.width).max() == 140)
        let (problem, end) = (Style.sequences[2], Style.sequences[0])
        #expect(lines[1].hasSuffix("…\(end)") && lines[1].contains("  \(problem)connection refused"), "\(lines[1])")
        #expect(lines.last == "whole reasons: larder status --long --socket /s")
        #expect(report.table([status()], width: 1000) == report.table([status()]))
        // Something of the reason is always shown.
        #expect(report.table([status()], width: 10).contains("connection refused"))
        for (text, width, short) in [
            ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("a\(problem)bcd\(end)", 3, "a\(problem)b…\(end)"), ("äöü", 2, "ä…"),
        ] { #expect(text.shortened(to: width) == short) }
    }

    @Test("status reports a rejection once, in the table and with --long")
    func rejectionOnce() {
        let plain = Style(isTerminal: false, noColor: "", terminal: "xterm")
        let report = StatusReport(style: plain, now: now)
        func lines(_ namespace: ConfigStatus.Namespace) -> [Substring] {
            report.text([namespace]).split(separator: "\n")
        }
        var namespace = status()
        namespace.layers = []
        namespace.lastError = .init(name: "rejected", message: "older than 17, which is held", at: before(3600))
        #expect(lines(namespace).count { $0.contains("older than 17") } == 1)
        #expect(report.table([namespace]).hasSuffix("  rejected version 16: older than 17, which is held"))
        var older = status()
        (older.lastError, older.layers) = (nil, [])
        older.rejected = .init(
            version: "6", reason: "version 6 is older than version 7", canForce: true, at: before(60))
        #expect(report.table([older]).contains("  rejected: version 6 is older than version 7"))
        let deletion = "it would remove 39 of 40 members"
        namespace.rejected = .init(version: "18", reason: deletion, canForce: true, at: before(60))
        namespace.lastError = .init(name: "rejected", message: deletion, at: before(60))
        namespace.quarantine = .init(version: "18", at: before(60), members: 40, removed: 39)
        #expect(lines(namespace).count { $0.contains("remove 39 of 40") } == 1)
        #expect(report.table([namespace]).hasSuffix("  version 18 would remove 39 of 40 members"))
        (namespace.rejected, namespace.quarantine) = (nil, nil)
        let violation = SchemaError(
            path: ["limit"], schemaPath: "#", keyword: "maximum", message: "expected at most 100")
        namespace.schemaRejection = .init(layer: "remote", version: "18", at: before(60), errors: [violation])
        namespace.lastError = .init(name: "schemaViolation", message: "limit: expected at most 100", at: before(60))
        #expect(lines(namespace).count { $0.contains("expected at most 100") } == 1)
        #expect(
            report.table([namespace]).hasSuffix(
                "  the schema rejects content of layer remote, version 18: limit: expected at most 100"))
    }

    @Test("absolute times are in the local time zone")
    func localTimes() {
        let format = Date.ISO8601FormatStyle(dateTimeSeparator: .space, timeZone: .current).year().month().day()
            .time(includingFractionalSeconds: false)
        for milliseconds in [0, 999, 1_800_000_000_000, 1_785_000_000_123] {
            let date = Date(timeIntervalSince1970: Double(milliseconds / 1000))
            #expect(Timestamp(milliseconds: milliseconds).local == date.formatted(format))
        }
    }

    @Test("status counts a failed state from the last success before it, and other states from their start")
    func failingFor() {
        let report = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: now)
        var namespace = status()
        namespace.since = before(1)
        namespace.state = .failed
        #expect(report.text([namespace]).hasPrefix("default  failed for 2 h 5 min, since \(before(7500).local)\n"))
        // Polls may succeed while the connection that reports changes fails.
        namespace.since = before(10)
        namespace.upstream?.lastSuccessAt = before(0)
        for state in [ConfigState.stale, .failed] {
            namespace.state = state
            #expect(report.text([namespace]).hasPrefix("default  \(state) for 10 s, since \(before(10).local)\n"))
        }
        namespace.since = before(1)
        namespace.state = .refreshing
        #expect(report.text([namespace]).hasPrefix("default  refreshing for 1 s, "))
        namespace.state = .failed
        namespace.upstream?.lastSuccessAt = nil
        #expect(report.text([namespace]).hasPrefix("default  failed for 1 s, "))
    }

    @Test("status reports why experiments were omitted")
    func omittedExperiments() {
        var status = status()
        let problem = "invalid experiments: list must be an array of overlays"
        status.layers = [
            .init(name: "experiment", present: false, bytes: 0, origin: "", updatedAt: nil, problem: problem)
        ]
        let plain = Style(isTerminal: false, noColor: "", terminal: "xterm")
        #expect(StatusReport(style: plain, now: now).text([status]).contains(problem))
    }

    @Test("status distinguishes sources that never responded from those that responded before the agent started")
    func responseBeforeStart() {
        let report = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: now)
        var namespace = status()
        namespace.upstream?.lastSuccessAt = nil
        #expect(report.text([namespace]).contains("no success since the agent started"))
        namespace.upstream?.version = nil
        namespace.upstream?.etag = nil
        #expect(report.text([namespace]).contains("no success yet"))
    }

    @Test("status reports a namespace without a snapshot as not published yet")
    func emptyStatus() {
        var namespace = status()
        namespace.revision = 0
        namespace.lastError = nil
        namespace.rejected = nil
        namespace.upstream = nil
        namespace.layers = []
        namespace.ageMilliseconds = nil
        let plain = Style(isTerminal: false, noColor: "", terminal: "")
        #expect(
            StatusReport(style: plain, now: now).text([namespace])
                == "default  stale for 2 h 5 min, since \(before(7500).local)\n  snapshot    none published yet")
    }

    @Test("color is used only on capable terminals and without NO_COLOR")
    func color() {
        #expect(Style(isTerminal: true, noColor: "", terminal: "xterm").state(.failed) == "\u{1B}[31mfailed\u{1B}[0m")
        for style in [
            Style(isTerminal: false, noColor: "", terminal: "xterm"),
            Style(isTerminal: true, noColor: "1", terminal: "xterm"),
            Style(isTerminal: true, noColor: "", terminal: "dumb"),
        ] {
            #expect(style.state(.failed) == "failed")
            #expect(style.strong("x") == "x")
        }
    }

    @Test("the table of clients has aligned columns and escapes control characters")
    func clients() {
        let client = AgentClients.Client(
            id: 7, peer: .init(pid: 4242, uid: 1000, gid: 1000), command: "so\u{1B}cat", connectedAt: before(65),
            requests: 12, subscriptions: 1, bytesReceived: 800, bytesSent: 12_345, pendingBytes: 0)
        #expect(
            ClientsTable(now: now, unit: { $0.id == 7 ? "shop.service" : nil }).text([client]) == """
                ID   PID   UID  COMMAND      UNIT          CONNECTED      REQUESTS  SUBS     IN    OUT  PENDING  RUNS
                 7  4242  1000  so\\u{1B}cat  shop.service  1 min 5 s ago        12     1  800 B  12 kB      0 B
                """)
        var other = client
        other.acknowledged = [
            .init(namespace: "default", revision: 41, accepted: true, reason: nil, at: now),
            .init(namespace: "web", revision: 8, accepted: false, reason: "no\nport", at: now),
        ]
        let table = ClientsTable(now: now, unit: { _ in nil }).text([other])
        #expect(table.hasSuffix("    0 B  41, not web 8: no\\nport"))
        #expect(table.contains("  -     1 min 5 s ago"), "\(table)")
    }

    @Test("the unit of a process is the innermost service or scope of its control group")
    func units() {
        for (text, unit) in [
            ("0::/system.slice/shop.service\n", "shop.service"),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-a.scope\n", "run-a.scope"),
            ("0::/system.slice/docker.service/payload\n", "docker.service"),
            ("0::/system.slice/_cpu.service\n", "cpu.service"),
            (
                "12:pids:/x.service\n1:name=systemd:/system.slice/a:b.service\n0::/system.slice/a:b.service\n",
                "a:b.service"
            ),
            ("0::/\n", nil), ("0::/init.scope.d/x\n", nil), ("", nil), ("a\n", nil),
        ] as [(String, String?)] { #expect(ProcessUnit.name(inControlGroups: text) == unit) }
        let client = AgentClients.Client(
            id: 1, peer: .init(pid: Int(getpid()), uid: 0, gid: 0), command: "another program", connectedAt: now,
            requests: 0, subscriptions: 0, bytesReceived: 0, bytesSent: 0, pendingBytes: 0)
        #expect(ProcessUnit.name(of: client) == nil, "the process is not the client")
    }

    @Test("explain shows the value, then its layers from highest to lowest precedence, and marks the effective one")
    func explanation() {
        let result = ConfigExplain.Result(
            path: "search.limit", namespace: "default", revision: 41, epoch: "e", value: 20, winner: "override",
            isMasked: false, lock: nil,
            layers: [
                .init(
                    name: "defaults", value: .string(String(repeating: "x", count: 50)),
                    source: .init(kind: "file", file: "/usr/share/app.json", line: 3),
                    since: .init(revision: 1, at: before(7500), orEarlier: true)),
                .init(name: "host", heldRevision: 38),
                .init(
                    name: "remote", isHiding: true,
                    source: .init(kind: "http", location: "https://config.example.org/a.json", version: "7"),
                    since: .init(revision: 40, at: before(60), orEarlier: false), heldRevision: 38),
                .init(
                    name: "experiment", value: "b",
                    source: .init(kind: "settings", file: "/etc/larder.json", line: 9, experiment: "new search")),
                .init(
                    name: "override", value: 20,
                    source: .init(
                        kind: "set", peer: .init(pid: 7, uid: 0, command: "so\u{1B}cat"), expiresAt: before(-600)),
                    since: .init(revision: 41, at: now, orEarlier: false)),
            ])
        let plain = Style(isTerminal: false, noColor: "", terminal: "")
        let lines = ExplainReport(style: plain, now: now).text(result).split(separator: "\n").map { line in
            // Columns are separated by at least two spaces.
            line.replacing(#/ {2,}/#, with: "|")
        }
        #expect(
            lines == [
                "search.limit = 20|(default, revision 41)",
                "|LAYER|VALUE|FROM|SINCE",
                "*|override|20|set by so\\u{1B}cat (process 7, user root), expires in 10 min|revision 41, just now",
                "|experiment|\"b\"|settings /etc/larder.json:9, experiment new search",
                "|remote|hides lower layers|http https://config.example.org/a.json, version 7, rolled back to revision 38|"
                    + "revision 40, 1 min ago",
                "|host|-|rolled back to revision 38",
                "|defaults|\"\(String(repeating: "x", count: 38))…|/usr/share/app.json:3|revision 1, 2 h 5 min ago, or earlier",
            ])
        var locked = result
        locked.value = nil
        locked.lock = .init(path: "search", file: "/etc/a.json", line: 2, settings: "/etc/larder.json")
        #expect(
            ExplainReport(style: plain, now: now).text(locked).hasPrefix(
                "search.limit has no value  (default, revision 41)\n"
                    + "search is locked by /etc/larder.json to the value in /etc/a.json:2\n"))
    }

    @Test("history prints one line per snapshot, and diff one line per changed path")
    func history() {
        let generations = [
            ConfigHistory.Generation(
                revision: 41, digest: "", bytes: 1234, publishedAt: now, current: true, upstreamVersion: "7",
                causes: [
                    .init(kind: "set", path: "a.b", peer: .init(pid: 7, uid: 0, command: "larder")),
                    .init(kind: "refresh", origin: "https://h/a.json"),
                ]),
            ConfigHistory.Generation(
                revision: 9, digest: "", bytes: 2, publishedAt: before(60), current: false, upstreamVersion: nil,
                causes: [.init(kind: "rollback", revision: 5)], isPinned: true),
        ]
        #expect(
            HistoryReport(now: now).text(generations) == """
                   REVISION  PUBLISHED            AGE      SIZE  VERSION  BECAUSE OF
                *        41  \(now.local)  0 s    1.2 kB  7        set a.b by larder (process 7, user root); refresh from https://h/a.json
                +         9  \(before(60).local)  1 min     2 B           rollback to 5
                """)
        let plain = DiffReport(style: Style(isTerminal: false, noColor: "", terminal: ""))
        let changes: [ConfigDiff.Change] = [
            .init(path: ["a"], kind: .added, old: nil, new: ["x": 1]),
            .init(path: ["b"], kind: .removed, old: 1, new: nil),
            .init(path: ["c.d", "e"], kind: .changed, old: "x", new: "y\u{1B}"),
        ]
        #expect(
            plain.text(.init(from: 1, to: 2, epoch: "e", patch: [:], changes: changes, isMasked: false)) == """
                + a: {"x":1}
                - b: 1
                ~ /c.d/e: "x" → "y\\u001b"
                """)
        #expect(
            plain.text(.init(from: 1, to: 2, epoch: "e", patch: [:], changes: [], isMasked: false))
                == "revisions 1 and 2 are equal")
    }

    @Test("status shows a quarantine, a rollback, the plain copy and acknowledgements")
    func holds() {
        var namespace = status()
        namespace.quarantine = .init(version: "18", at: before(60), members: 40, removed: 39)
        namespace.hold = .init(
            revision: 38, rejectedVersion: "17", since: before(60), layers: ["host", "remote"], rule: "untilReleased",
            reason: "files have no versions", peer: .init(pid: 7, uid: 0, command: "larder"))
        namespace.copy = .init(path: "/run/larder/current/default.json", problem: "no space")
        namespace.acknowledgements = .init(
            accepted: [40: 1, 41: 2], rejections: 3,
            rejected: [
                .init(
                    client: 7, peer: .init(pid: 7, uid: 0, command: "app"), revision: 41, reason: "no port",
                    at: before(60))
            ])
        let text = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: now).text([namespace])
        #expect(
            text.contains(
                """
                  quarantine  version 18 would remove 39 of 40 members
                              1 min ago (\(before(60).local))
                              accept it with: larder refresh --force (or, if a client pushed it: larder push FILE --force)
                  rolled back to revision 38, version 17 is held back
                              by larder (process 7, user root), 1 min ago (\(before(60).local))
                              layers held back: host, remote
                              until released, because files have no versions
                              end it with: larder rollback --release
                """))
        #expect(
            text.hasSuffix(
                """
                  copy        /run/larder/current/default.json
                              no space
                  in use      revision 41 by 2 clients
                              revision 40 by 1 client
                              revision 41 rejected by app (process 7, user root): no port, 1 min ago (\(before(60).local))
                              rejected by 2 more clients
                """))
    }

    @Test("protocol errors have the documented exit statuses")
    func exitStatuses() {
        // The module name is needed, because the testing library also has a type ExitStatus.
        func status(_ code: WireError.Code) -> LarderCommand.ExitStatus {
            LarderCommand.ExitStatus(LarderClientError(remote: WireError(code, "x")))
        }
        #expect(status(.notFound) == .notFound)
        #expect(status(.unknownNamespace) == .notFound)
        #expect(status(.denied) == .denied)
        #expect(status(.timeout) == .timeout)
        #expect(status(.upstreamFailed) == .upstream)
        #expect(status(.rejected) == .upstream)
        #expect(status(.unavailable) == .unavailable)
        #expect(status(.shuttingDown) == .unreachable)
        #expect(status(.invalidParams) == .usage)
        #expect(status(.internalError) == .failure)
    }
}
