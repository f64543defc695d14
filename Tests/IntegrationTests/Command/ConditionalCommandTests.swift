import Foundation
import LarderJSON
import TestSupport
import Testing

@Suite("Commands for conditional changes", .ownThread, .timeLimit(.minutes(30)))
struct ConditionalCommandTests {
    @Test("set, unset and increment report a failed condition with exit status 13 and the current value")
    func conditions() throws {
        try AgentHome.with { home in
            _ = try home.start()
            #expect(try home.larder("set", "owner", "a", "--if-absent").status == 0)
            let refused = try home.larder("set", "owner", "b", "--if-absent")
            #expect(refused.status == 13)
            #expect(refused.log.contains("the value is \"a\""), "\(refused.log)")
            #expect(try home.larder("unset", "owner", "--if-value", "b").status == 13)
            let json = try JSONValue(parsing: home.larder("set", "owner", "c", "--if-revision", "0", "--json").log)
            #expect(json["name"] == "conflict" && json["exitStatus"] == 13 && json["revision"]?.int != nil)
            #expect(try home.larder("increment", "left", "--by", "2").text == "2\n")
            #expect(try home.larder("increment", "left", "--by", "-2", "--minimum", "0").text == "0\n")
            #expect(try home.larder("increment", "left", "--by", "-1", "--minimum", "0").status == 13)
        }
    }

    @Test("apply makes several changes as one; dry runs print the differences; history shows the reason and the user")
    func apply() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            let before = try agent.call("config.get")["revision"]?.int ?? 0
            let dryRun = try home.larder("apply", "-", "--dry-run", input: "a.b=1\nc=text\n")
            #expect(
                dryRun.text == "dry run: this would change in revision \(before)\n+ a: {\"b\":1}\n+ c: \"text\"\n")
            let applied = try home.larder("apply", "-", "--reason", "a test", input: "a.b=1\nc=text\n")
            #expect(applied.text == "revision \(before + 1)\n", "\(applied.log)")
            #expect(try agent.call("config.get")["value"] == ["a": ["b": 1], "c": "text"])
            let history = try home.larder("history", "--limit", "1").text
            #expect(history.contains("apply by ") && history.contains("because: a test"), "\(history)")
            #expect(try home.larder("explain", "c").text.contains("because: a test"))
            #expect(
                try home.larder("set", "c", "text", "--dry-run").text
                    == "dry run: the configuration would stay as it is in revision \(before + 1)\n")
            #expect(try home.larder("unset", "--all", "--dry-run").text.contains("- c: \"text\""))
            try agent.waitForLog("(a test)")
        }
    }

    @Test("apply makes more than 1,000 changes in chunks, and the same command resumes after an error")
    func longFile() throws {
        try AgentHome.with(settings: "{ limits: { documentBytes: 65536 } }") { home in
            let agent = try home.start()
            let before = try agent.call("config.get")["revision"]?.int ?? 0
            let values = (1...2500).map { "a.k\($0)=\($0)\n" }
            let dryRun = try home.larder("apply", "-", "--dry-run", input: values.joined())
            #expect(dryRun.status == 2 && dryRun.log.contains("split the file"), "\(dryRun.log)")
            let condition = try home.larder("apply", "-", "--if-revision", "\(before)", input: values.joined())
            #expect(condition.status == 2)
            #expect(try agent.call("config.get")["revision"]?.int == before)

            // The agent rejects the second chunk, because the document would be too large.
            var mistaken = values
            mistaken[1499] = "a.k1500=\(String(repeating: "x", count: 100_000))\n"
            let stopped = try home.larder("apply", "-", input: mistaken.joined())
            #expect(stopped.status != 0 && stopped.log.contains("1000 of 2500 changes applied"), "\(stopped.log)")
            #expect(try agent.call("config.get")["revision"]?.int == before + 1)

            let applied = try home.larder("apply", "-", input: values.joined())
            #expect(applied.text == "revision \(before + 3)\n", "\(applied.log)")
            #expect(try agent.call("config.get", ["path": "a"])["value"]?.count == 2500)
            let again = try home.larder("apply", "-", input: values.joined())
            #expect(again.text == "unchanged at revision \(before + 3)\n")
        }
    }

    /// Runs `larder edit` with a shell script as the editor. `$1` is the file, and `$STEP` counts the calls from 1.
    private func edit(
        _ home: AgentHome, _ script: String, _ arguments: String..., onTerminal: Bool = false
    ) throws -> Command {
        try home.write(
            "editor", "#!/bin/sh\nSTEP=$(($(cat $0.step 2>/dev/null || echo 0) + 1))\necho $STEP > $0.step\n" + script)
        let path = home.directory + "/editor"
        chmod(path, 0o700)
        unlink(path + ".step")
        let environment = home.clientEnvironment.merging(["EDITOR": path, "VISUAL": ""]) { $1 }
        let command = [try Products.commandLine, "edit"] + arguments
        return onTerminal
            ? try Command.run(
                "script", ["-qec", "exec " + command.joined(separator: " "), "/dev/null"], environment: environment)
            : try Command.run(command[0], Array(command[1...]), environment: environment)
    }

    /// How often the editor of the last call of `edit` was opened.
    private func openings(_ home: AgentHome) throws -> Int? {
        Int(try String(contentsOfFile: home.directory + "/editor.step", encoding: .utf8).dropLast())
    }

    @Test("without a terminal, edit opens the editor once, and reports why the text was rejected")
    func editWithoutTerminal() throws {
        try AgentHome.with(settings: "{ namespaces: { default: { schema: { path: '@/schema.json' } } } }") { home in
            try home.write("schema.json", #"{"properties": {"limit": {"maximum": 100}}}"#)
            _ = try home.start()
            try home.larder("set", "limit", "55")
            for (script, status) in [
                (#"sed -i s/5/55/ "$1""#, 14), (#"sed -i s/5/5,,/ "$1""#, 2),
                ("\(try Products.commandLine) set limit $STEP >&2; sed -i s/5/6/ \"$1\"", 13),
            ] {
                let end = try edit(home, script)
                #expect(end.status == CInt(status), "\(script): \(end)")
                #expect(try openings(home) == 1)
            }
        }
    }

    @Test("on a terminal, edit ends with the reason if the text is unchanged since it was rejected")
    func editGivesUp() throws {
        try AgentHome.with(settings: "{ namespaces: { default: { schema: { path: '@/schema.json' } } } }") { home in
            try home.write("schema.json", #"{"properties": {"limit": {"maximum": 100}}}"#)
            _ = try home.start()
            try home.larder("set", "limit", "55")
            let end = try edit(home, #"[ $STEP = 2 ] || sed -i 's/: 55/: 555/' "$1""#, onTerminal: true)
            #expect(end.status == 14, "\(end)")
            #expect(try openings(home) == 2)
        }
    }

    @Test("edit applies only the difference, and an unchanged or empty text changes nothing")
    func edit() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            try agent.call("config.push", ["document": ["search": ["limit": 25, "hosts": ["a"]]]])
            let edited = try edit(home, "sed -i 's/25/30/' \"$1\"", "search", "--reason", "more")
            #expect(edited.status == 0, "\(edited.log)")
            #expect(try agent.call("config.get", ["path": "search"])["value"] == ["limit": 30, "hosts": ["a"]])
            let explained = try agent.call("config.explain", ["path": "search.hosts"])
            #expect(explained["winner"] == "remote")
            #expect(try edit(home, "true", "search").text.hasPrefix("unchanged at revision "))
            #expect(try edit(home, ": > \"$1\"", "search").status == 1)
            #expect(try edit(home, "exit 3", "search").log.contains("the editor"))
        }
    }

    @Test("edit opens the editor again after a syntax error; after a conflict, its text has the other change too")
    func editConflict() throws {
        try AgentHome.with { home in
            let agent = try home.start()
            try agent.call("config.set", ["path": "a", "value": 1])
            try agent.call("config.set", ["path": "b", "value": 1])
            let script = """
                case $STEP in
                1) sed -i 's/"a": 1,/"a": 2,,/' "$1" ;;
                2) grep -q '^// the text:' "$1" || exit 9
                   sed -i 's/,,/,/' "$1"
                   \(try Products.commandLine) set b 5 > /dev/null ;;
                3) grep -q 'was changed in the meantime' "$1" && grep -q '"b": 5' "$1" || exit 9 ;;
                *) exit 9 ;;
                esac
                """
            let edited = try edit(home, script, onTerminal: true)
            #expect(edited.status == 0, "\(edited)")
            #expect(try agent.call("config.get")["value"] == ["a": 2, "b": 5])
        }
    }
}
