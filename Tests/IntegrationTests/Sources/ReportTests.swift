import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Reports of the host")
    struct ReportTests {
        private static let accepted: RawOrigin.Answer = .text("HTTP/1.1 204 No Content\r\n\r\n")

        /// Settings whose reports follow a start, a reload or a change without a delay.
        private static func settings(_ url: String, _ more: String = "") -> String {
            "{ report: { url: '\(url)', splaySeconds: 0, labels: { site: 'berlin' }\(more) } }"
        }

        private static func file(_ path: String) -> String { Checkout.root.appending(path: path).path }

        @Test("an agent reports with its token, in a document that matches the schema")
        func content() throws {
            try RawOrigin.serve(answering: Self.accepted) { receiver in
                try AgentHome.with { home in
                    try home.write("token", "s3cret\n")
                    chmod("\(home.directory)/token", 0o600)
                    try home.write(settings: Self.settings("\(receiver.url)fleet?k=1", ", tokenFile: '@/token'"))
                    let agent = try home.start()
                    let request = try receiver.request()
                    #expect(request[":method"] == "POST" && request[":path"] == "/fleet?k=1")
                    #expect(request["authorization"] == "Bearer s3cret")
                    #expect(request["content-type"] == "application/json")
                    let body = try #require(request[":body"])
                    let report = try JSONValue(parsing: Array(body.utf8))
                    #expect(report["labels"] == ["site": "berlin"])
                    #expect(report["namespaces"]?[0]?["namespace"] == "default")
                    let schema = Self.file("Protocol/schemas/report.json")
                    let validation = try home.larder("validate", "-", "--schema", schema, input: body)
                    #expect(validation.status == 0, "\(validation.text)\(validation.log)\n\(body)")
                    #expect(!agent.log.contains("s3cret"))
                }
            }
        }

        @Test("a redirect is not followed, and a report that was not accepted is a warning of status and doctor")
        func refusal() throws {
            let redirect: RawOrigin.Answer = .text("HTTP/1.1 307 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")
            try RawOrigin.serve(answering: redirect) { receiver in
                try AgentHome.with { home in
                    try home.write(settings: Self.settings(receiver.url))
                    let agent = try home.start()
                    try agent.waitForLog("the report of this host was not accepted")
                    #expect(receiver.requests.count == 1)
                    let status = try home.larder("status", "--check")
                    #expect(status.status == 12)
                    #expect(status.text.contains("did not accept the last report"), "\(status.text)")
                    #expect(status.text.contains("redirects the request; use the final address"), "\(status.text)")
                    #expect(try home.larder("doctor").text.contains("did not accept the last report"))
                }
            }
        }

        @Test(
            "a reload begins and ends reports, and a receiver that does not respond delays neither clients nor the stop"
        )
        func reload() throws {
            try RawOrigin.serve(answering: .hang) { receiver in
                try AgentHome.with(settings: "{}") { home in
                    let agent = try home.start()
                    try home.write(settings: Self.settings(receiver.url))
                    try agent.reload()
                    try receiver.request()
                    try agent.connect().call("config.set", ["a", 1])
                    try home.write(settings: "{}")
                    try agent.reload()
                    // The report in flight is cancelled.
                    try receiver.disconnection()
                    try home.write(settings: Self.settings(receiver.url))
                    try agent.reload()
                    let report = try #require(try receiver.request()[":body"])
                    #expect(try JSONValue(parsing: Array(report.utf8))["namespaces"]?[0]?["overrides"] == 1)
                    #expect(try agent.stop() == .exit(0))
                }
            }
        }

        @Test("with reportToSource, polls have the state of the host, as of the time before the poll")
        func polls() throws {
            try RawOrigin.serve(answering: .document(#"{"version":"é1"}"#)) { origin in
                try AgentHome.with { home in
                    try home.write(
                        settings: """
                            { namespaces: { default: { remote: { http: { url: '\(origin.documentURL)', \
                            intervalSeconds: 86400, reportToSource: true } } } } }
                            """)
                    let client = try home.start().connect()
                    #expect(try origin.request()["larder-status"] == "state=initializing")
                    try client.call("config.refresh")
                    try client.call("config.refresh", ["force": true])
                    let last = try #require(origin.requests.last.map(RawOrigin.Request.init))
                    #expect(last["larder-status"] == "state=fresh, version=%\"%c3%a91\"")
                    if FileManager.default.fileExists(atPath: "/etc/machine-id") {
                        let host = last["larder-host"] ?? ""
                        #expect(host.utf8.count == 34 && host.hasPrefix("\"") && host.hasSuffix("\""), "\(host)")
                    }
                }
            }
        }

        @Test("receiver.py stores reports over TLS, and its table shows versions, refusals and silent hosts")
        func receiver() throws {
            try AgentHome.with { home in
                let directory = home.directory
                let certificates = Certificates(directory: directory)
                try certificates.makeAuthority("ca")
                try certificates.make("receiver", by: "ca")
                try home.write("token", "s3cret\n")
                try home.write("other", "wrong\n")
                for name in ["token", "other", "receiver.key"] { chmod("\(directory)/\(name)", 0o600) }
                let program = Self.file("contrib/fleet/receiver.py")
                let database = "\(directory)/reports.db"
                let receiver = try ChildProcess(
                    "python3",
                    [
                        program, "serve", "--database", database, "--listen", "127.0.0.1:0", "--token-file",
                        "\(directory)/token", "--certificate", "\(directory)/receiver.pem", "--key",
                        "\(directory)/receiver.key",
                    ])
                defer { receiver.kill() }
                let port = try #require(try receiver.line()?.split(separator: ":").last)
                let url = "https://127.0.0.1:\(port)/"
                try home.write(
                    settings: Self.settings(url, ", tokenFile: '@/other', certificateAuthority: '@/ca.pem'"))
                let agent = try home.start()
                try receiver.waitForLog("\" 401 ")
                try agent.waitForLog("the report of this host was not accepted")
                try agent.connect().call("config.push", ["document": ["a": 1], "version": "7"])
                try home.write(
                    settings: Self.settings(url, ", tokenFile: '@/token', certificateAuthority: '@/ca.pem'"))
                try agent.reload()
                try receiver.waitForLog("\" 204 ")
                let first = try Command.run("python3", [program, "table", "--database", database])
                #expect(first.status == 0 && first.text.contains("namespace default: 1 host"), "\(first.text)")
                #expect(first.output.contains("  7        1      fresh 1"), "\(first.text)")
                // Makes a fleet of that report.
                let copies = try Command.run("python3", ["-c", Self.copies, database])
                #expect(copies.status == 0, "\(copies.log)")
                let table = try Command.run(
                    "python3", [program, "table", "--database", database, "--stop-at", "3"])
                #expect(table.status == 1, "\(table.log)")
                let lines = [
                    "namespace default: 200 hosts", "  7        3      stale 3", "  8        197    fresh 197",
                    "  experiment bright: 20 hosts", "rejected by 3 hosts",
                    "  kiosk-017  8        brightness: too bright \\x1b[31m\\u202e",
                    "silent: 1 host", "  kiosk-042  2 h ago", "stop: rejected by 3 hosts",
                ]
                for line in lines { #expect(table.output.contains(line), "\(line)\n\(table.text)") }
                #expect(
                    try Command.run(
                        "python3", [program, "table", "--database", database, "--stop-at", "4"]
                    ).status == 0)
            }
        }

        @Test("the rollout script of the guide publishes a document for all hosts, unless three reject it")
        func rollout() throws {
            try AgentHome.with { home in
                let guide = try String(
                    contentsOf: Checkout.root.appending(path: "contrib/guides/reports.md"), encoding: .utf8)
                let script = try #require(
                    guide.components(separatedBy: "```bash\n").dropFirst().first?.components(separatedBy: "\n```").first
                )
                let document = try #require(
                    guide.components(separatedBy: "```json\n").dropFirst().first?.components(separatedBy: "\n```").first
                )
                try home.write("rollout.sh", script)
                try FileManager.default.createSymbolicLink(
                    atPath: "\(home.directory)/receiver.py",
                    withDestinationPath: Self.file("contrib/fleet/receiver.py"))
                let insertion = """
                    import json, sqlite3, sys
                    database = sqlite3.connect(sys.argv[1])
                    database.execute("create table if not exists reports (id text primary key, host text not null, "
                        "received real not null, interval integer not null, report text not null)")
                    space = {"namespace": "default", "state": "stale", "version": "7"}
                    for number in range(int(sys.argv[2])):
                        space["rejected"] = {"version": "8", "reason": "too bright"}
                        database.execute("insert or replace into reports values (?, ?, 9e9, 300, ?)",
                            (str(number), f"kiosk-{number}", json.dumps({"namespaces": [space]})))
                    database.commit()
                    """
                func run(rejecting: Int) throws -> (Command, percentage: JSONValue?) {
                    try home.write("kiosk.json", document)
                    let database = "\(home.directory)/reports-\(rejecting).db"
                    #expect(try Command.run("python3", ["-c", insertion, database, "\(rejecting)"]).status == 0)
                    var environment = ChildProcess.environment
                    environment["PAUSE"] = "0"
                    let command = try Command.run(
                        "bash", ["rollout.sh", "kiosk.json", database], environment: environment,
                        directory: home.directory)
                    let bytes = Array(try Data(contentsOf: URL(filePath: "\(home.directory)/kiosk.json")))
                    return (command, try JSONValue(parsing: bytes)["experiments"]?[0]?["percentage"])
                }
                let (complete, all) = try run(rejecting: 2)
                #expect(complete.status == 0 && all == 100, "\(complete.text)\(complete.log)")
                let (stopped, some) = try run(rejecting: 3)
                #expect(stopped.status == 1 && some == 1, "\(stopped.text)\(stopped.log)")
                #expect(stopped.output.last == "stop: rejected by 3 hosts")
            }
        }

        /// Replaces the only report in a database by those of 200 hosts: three reject the version 8, and one is silent.
        private static let copies = #"""
            import json, sqlite3, sys
            database = sqlite3.connect(sys.argv[1])
            received, text = database.execute("select received, report from reports").fetchone()
            database.execute("delete from reports")
            for number in range(200):
                report = json.loads(text)
                space = report["namespaces"][0]
                report["host"], report["hostId"] = f"kiosk-{number:03}", f"{number:032x}"
                space["version"] = "8"
                if number < 20:
                    space["experiments"] = ["bright"]
                if number in (17, 101, 164):
                    reason = "brightness: too bright \x1b[31m\u202e"
                    space.update(version="7", state="stale", rejected={"version": "8", "reason": reason})
                at = received - (7300 if number == 42 else 0)
                database.execute("insert into reports values (?, ?, ?, ?, ?)",
                                 (report["hostId"], report["host"], at, report["intervalSeconds"], json.dumps(report)))
            database.commit()
            """#
    }
}

extension RawOrigin {
    /// Runs `body` with an origin that gives one answer to all requests.
    fileprivate static func serve(answering answer: Answer, _ body: (RawOrigin) throws -> Void) throws {
        let origin = try listening(answer)
        defer { origin.stop() }
        try body(origin)
    }
}
