import Glibc
import LarderJSON
import TestSupport
import Testing

@Suite("Long files of larder apply", .ownThread, .timeLimit(.minutes(30)))
struct LongApplyTests {
    private let lines = (0..<2500).map { "items.i\($0)=\($0)\n" }.joined()

    @Test("2,500 lines are applied with three revisions, and applying them again changes nothing")
    func chunks() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            let before = try agent.call("config.get")["revision"]?.int ?? 0
            let applied = try home.larder("apply", "-", "--reason", "a test", input: lines)
            #expect(applied.text == "revision \(before + 3)\n", "\(applied.log)")
            #expect(applied.log == "", "without a terminal, no progress is shown")
            #expect(try agent.call("config.get", ["path": "items"])["value"]?.count == 2500)
            #expect(try home.larder("apply", "-", input: lines).text == "unchanged at revision \(before + 3)\n")
            let json = try JSONValue(parsing: home.larder("apply", "-", "--json", input: lines + "items.i7=x\n").text)
            #expect(json["revision"]?.int == before + 4 && json["changed"] == true, "\(json)")
        }
    }

    @Test("a JSON5 array may have more than 1,000 changes")
    func array() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            let changes = (0..<1500).map { "{op: 'set', path: 'i\($0)', value: \($0)}" }.joined(separator: ",")
            #expect(try home.larder("apply", "-", input: "[\(changes)]").status == 0)
            #expect(try agent.call("config.get")["value"]?.count == 1500)
        }
    }

    @Test("conditions, dry runs and mistakes in a long file are usage errors that change nothing")
    func refusals() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            for option in [["--if-revision", "1"], ["--dry-run"]] {
                let run = try Command.run(
                    Products.commandLine, ["apply", "-"] + option, environment: home.clientEnvironment, input: lines)
                #expect(run.status == 2 && run.log.contains("\(option[0]) is only for files of at most 1000 changes"))
            }
            let changes = (0..<1500).map { "{op: 'set', path: 'i\($0)', value: 1, ifAbsent: true}" }
            let conditions = try home.larder("apply", "-", input: "[\(changes.joined(separator: ","))]")
            #expect(conditions.status == 2 && conditions.log.contains("ifValue or ifAbsent"), "\(conditions.log)")
            let mistake = try home.larder("apply", "-", input: lines + "no value\n")
            #expect(mistake.status == 2 && mistake.log.contains("standard input:2501: "), "\(mistake.log)")
            #expect(try agent.call("config.get")["value"] == .emptyObject)
        }
    }

    @Test("an error stops a long apply, and standard error has the number of changes that were made")
    func failure() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            // A path into an array is refused, with its whole chunk.
            try agent.call("config.set", ["path": "list", "value": [1]])
            let run = try home.larder("apply", "-", input: lines + "list.0=5\n")
            #expect(run.status == 2, "\(run.log)")
            #expect(run.log.contains("2000 of 2501 changes applied; correct the cause"), "\(run.log)")
            #expect(try agent.call("config.get", ["path": "items"])["value"]?.count == 2000)
        }
    }

    @Test("on a terminal, the number of applied changes is shown")
    func terminal() throws {
        try AgentHome.with { home in
            _ = try home.start()
            try home.write("changes", lines)
            // script(1) runs the command on a terminal.
            let larder = try Products.commandLine
            let run = try Command.run(
                "script", ["-q", "-e", "-c", "\(larder) apply changes --socket \(home.socket)", "/dev/null"],
                environment: home.environment.merging(["TERM": "xterm"]) { $1 }, directory: home.directory)
            #expect(run.end == .exit(0), "\(run)")
            for count in [1000, 2000, 2500] {
                #expect(run.text.contains("\r\(count) of 2500 changes applied"), "\(run.text)")
            }
        }
    }

    @Test("Ctrl-C stops a long apply between two chunks, and the same command resumes")
    func interruption() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            let count = 200_000
            let long = (0..<count).map { "items.i\($0 % 5000)=\($0)\n" }.joined()
            try home.write("changes", long)
            let run = try home.startLarder("apply", home.directory + "/changes")
            // larder installs its signal handler before it sends the first chunk.
            while try agent.call("config.get")["value"]?.count == 0 {}
            run.signal(SIGINT)
            #expect(try run.waitForEnd() == .signal(SIGINT))
            #expect(run.logText.contains("larder: stopped: "), "\(run.logText)")
            #expect(run.logText.contains(" of \(count) changes applied; run the same command to resume"))
            let applied = try #require(run.logText.split(separator: " ").compactMap { Int($0) }.first)
            #expect(applied > 0 && applied < count && applied % 1000 == 0)
        }
    }
}
