import JSON
import LarderClient
import Testing

@testable import larder

@Suite("What the command line prints")
struct CommandFormatTests {
    private let now = Timestamp(milliseconds: 1_800_000_000_000)

    private func before(_ seconds: Int) -> Timestamp { Timestamp(milliseconds: now.milliseconds - seconds * 1000) }

    @Test("scalars are bare, objects pretty or compact, numbers keep their text")
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

    @Test("a terminal is not given control characters, a pipe gets every byte")
    func controls() {
        #expect(ValueFormat.pretty.text("a\u{1B}[2J\nb", isTerminal: true) == "a\\u{1B}[2J\nb")
        #expect(ValueFormat.pretty.text("a\u{1B}[2J\nb") == "a\u{1B}[2J\nb")
        #expect("x\r\n\u{202E}y\u{9B}".printable == "x\\r\\n\\u{202E}y\\u{009B}")
        #expect("schön 😀".printable == "schön 😀")
    }

    @Test("watch prints one line for each value")
    func lines() {
        #expect(ValueFormat.line(nil) == "")
        #expect(ValueFormat.line("plain") == "plain")
        #expect(ValueFormat.line("two\nlines") == #""two\nlines""#)
        #expect(ValueFormat.line(["a": [1, 2]]) == #"{"a":[1,2]}"#)
        let snapshot = ConfigSnapshot(value: nil, revision: 3, epoch: "e", state: .stale, skipped: 2, namespace: "web")
        #expect(
            WatchCommand.json(snapshot).compactText
                == #"{"namespace":"web","epoch":"e","revision":3,"state":"stale","skipped":2,"exists":false}"#)
    }

    @Test("spans, sizes and counts are said as people say them")
    func human() {
        #expect(Human.ago(milliseconds: 400) == "just now")
        #expect(Human.ago(milliseconds: -5000) == "just now")
        #expect(Human.ago(milliseconds: 35_000) == "35 s ago")
        #expect(Human.span(milliseconds: 90_000) == "1 min 30 s")
        #expect(Human.span(milliseconds: 1_260_000) == "21 min")
        #expect(Human.span(milliseconds: 7_500_000) == "2 h 5 min")
        #expect(Human.span(milliseconds: 86_400_000 * 3 + 3_600_000 * 4) == "3 d 4 h")
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
            refused: .init(version: "16", reason: "older than 17, which is held", at: before(3600)),
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

    @Test("status says the state first, then what explains it")
    func statusReport() {
        let plain = Style(isTerminal: false, noColor: "", terminal: "xterm")
        #expect(
            StatusReport(style: plain, now: now).text([status()]) == """
                default  stale for 2 h 5 min
                  snapshot    revision 41, 1.2 kB, published 3 h ago
                              epoch 0123456789abcdef, sha256:abababababab…, durability full
                  confirmed   by its source 2 h 5 min ago
                  last error  upstreamFailed: connection refused\\u{1B}[31m
                              35 s ago
                  refused     version 16: older than 17, which is held
                              1 h ago
                  source      http https://config.example.org/a.json
                              holds version 17, etag "x"
                              last answer 2 h 5 min ago
                              5 failures since, the last 35 s ago
                              next attempt in 25 s
                  layers      host        412 B  /etc/larder/config.d, changed 1 d ago
                                10-a.json: unexpected end
                              remote     1.0 kB  http
                              override    empty  socket
                """)
    }

    @Test("a source that answered before the start only is not called silent for ever")
    func answeredBefore() {
        let report = StatusReport(style: Style(isTerminal: false, noColor: "", terminal: ""), now: now)
        var namespace = status()
        namespace.upstream?.lastSuccessAt = nil
        #expect(report.text([namespace]).contains("not answered yet since the agent's start"))
        namespace.upstream?.version = nil
        namespace.upstream?.etag = nil
        #expect(report.text([namespace]).contains("never answered"))
    }

    @Test("a namespace without anything yet is said to be so")
    func emptyStatus() {
        var namespace = status()
        namespace.revision = 0
        namespace.lastError = nil
        namespace.refused = nil
        namespace.upstream = nil
        namespace.layers = []
        namespace.ageMilliseconds = nil
        let plain = Style(isTerminal: false, noColor: "", terminal: "")
        #expect(
            StatusReport(style: plain, now: now).text([namespace])
                == "default  stale for 2 h 5 min\n  snapshot    none published yet")
    }

    @Test("colour is for terminals that can and want it")
    func colour() {
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

    @Test("the table of clients has aligned columns, and no name can break it")
    func clients() {
        let client = AgentClients.Client(
            id: 7, peer: .init(pid: 4242, uid: 1000, gid: 1000), command: "so\u{1B}cat", connectedAt: before(65),
            requests: 12, subscriptions: 1, bytesReceived: 800, bytesSent: 12_345, pendingBytes: 0)
        #expect(
            ClientsTable(now: now).text([client]) == """
                ID   PID   UID  COMMAND      CONNECTED      REQUESTS  SUBS     IN    OUT  PENDING
                 7  4242  1000  so\\u{1B}cat  1 min 5 s ago        12     1  800 B  12 kB      0 B
                """)
    }

    @Test("each failure has its exit status and says what to do next")
    func exitStatuses() {
        // The name alone could be that of the testing library, too.
        func status(_ code: WireError.Code) -> larder.ExitStatus {
            larder.ExitStatus(LarderClientError(remote: WireError(code, "x")))
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
