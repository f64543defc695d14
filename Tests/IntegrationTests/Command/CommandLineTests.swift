import Foundation
import LarderJSON
import TestSupport
import Testing

@Suite("larder with a real agent", .ownThread, .timeLimit(.minutes(30)))
struct CommandLineTests {
    @Test("ping uses the socket from an option before or after the verb, or from the environment")
    func ping() throws {
        try AgentHome.with(starting: true) { (home) throws in
            let pong = Command(end: .exit(0), text: "pong\n")
            #expect(try home.larder("ping") == pong)
            #expect(try Command.run(Products.commandLine, ["ping", "--socket", home.socket]) == pong)
            #expect(try Command.run(Products.commandLine, ["--socket", home.socket, "ping"]) == pong)
            #expect(try home.larder("ping", "--json").text == "{\"pong\":true}\n")
        }
    }

    @Test(
        "get prints scalars without quotes, objects pretty or compact, or the whole result; unset prints the revision")
    func values() throws {
        try AgentHome.with(starting: true) { (home) throws in
            #expect(try home.larder("set", "search.limit", "25").status == 0)
            #expect(try home.larder("set", "search.name", "primary one").status == 0)
            #expect(try home.larder("set", "search.version", "--string", "1.10").status == 0)
            #expect(try home.larder("set", "search.exact", "12345678901234567890.1000").status == 0)
            #expect(try home.larder("get", "search.limit").text == "25\n")
            #expect(try home.larder("get", "/search/name").text == "primary one\n")
            #expect(try home.larder("get", "search.exact").text == "12345678901234567890.1000\n")
            #expect(
                try home.larder("get", "search", "--raw").text
                    == #"{"limit":25,"name":"primary one","version":"1.10","exact":12345678901234567890.1000}"# + "\n")
            #expect(try home.larder("get", "search").text.hasPrefix("{\n  \"limit\": 25,\n"))
            let result = try JSONValue(parsing: try home.larder("get", "search.limit", "--json").text)
            #expect(result["value"] == 25)
            #expect(result["epoch"]?.string?.utf8.count == 16)
            #expect(try home.larder("unset", "search.limit").text.hasPrefix("revision "))
            #expect(try home.larder("unset", "search.limit").text.hasPrefix("unchanged at revision "))
            #expect(try home.larder("get", "search.limit").status == 3)
        }
    }

    @Test("an empty path is a usage error; only replace and --all change the whole document")
    func wholeDocument() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", "1")
            for (arguments, advice) in [
                (["unset", ""], "larder unset --all removes all overrides"),
                (["set", "", "{}"], "larder replace VALUE replaces all overrides"),
                (["unset", "", "--all"], "--all takes no path"), (["unset", "a", "--all"], "--all takes no path"),
                (["replace", "a", "{}"], "Unexpected argument"), (["replace"], "Missing expected argument"),
                (["unset"], "larder unset --all removes all overrides"),
                (["set", "a"], "Missing expected argument"),
            ] {
                let end = try Command.run(Products.commandLine, arguments, environment: home.clientEnvironment)
                #expect(end.status == 2, "larder \(arguments): \(end)")
                #expect(end.log.contains(advice), "\(end.log)")
            }
            #expect(try home.larder("get", "--raw").text == #"{"a":1}"# + "\n")
            #expect(try home.larder("replace", #"{"b":2}"#).text.hasPrefix("revision "))
            #expect(try home.larder("get", "--raw").text == #"{"b":2}"# + "\n")
            #expect(try home.larder("replace", "5").status == 2)
            let invalid = try home.larder("replace", #"{"b":"#)
            #expect(invalid.status == 2 && invalid.log.contains("; correct it"), "\(invalid.log)")
            #expect(!invalid.log.contains("--string"), "\(invalid.log)")
            #expect(try home.larder("replace", #"{"c":3}"#, "--dry-run").text.contains("+ c: 3"))
            #expect(try home.larder("get", "--raw").text == #"{"b":2}"# + "\n")
            #expect(try home.larder("unset", "--all").text.hasPrefix("revision "))
            #expect(try home.larder("get", "--raw").text == "{}\n")
        }
    }

    @Test("set reports a change of the lifetime of an override, even if the value is unchanged")
    func lifetimes() throws {
        try AgentHome.with(starting: true) { (home) throws in
            #expect(!(try home.larder("set", "a", "1").text.contains(";")))
            #expect(try home.larder("set", "a", "1", "--ttl", "1h").text.contains("; the override expires in "))
            let stays = try home.larder("set", "a", "1").text
            #expect(stays.hasPrefix("unchanged at revision "))
            #expect(stays.hasSuffix("; the override no longer expires\n"))
            #expect(!(try home.larder("set", "a", "1").text.contains(";")))
        }
    }

    @Test("every failure is one line on standard error and a documented exit status")
    func failures() throws {
        try AgentHome.with(starting: true) { (home) throws in
            for (arguments, status): ([String], Int32) in [
                (["get", "no.such.path"], 3), (["get", "-n", "nope"], 3), (["get", "/a~2"], 2), (["nope"], 2),
                (["set", "a", "{"], 2), (["get", "--socket", "\(home.directory)/none.sock"], 5),
                (["watch", "--socket", "\(home.directory)/none.sock"], 5),
                (["push", "\(home.directory)/none.json"], 1), (["push", "-"], 2), (["call", "no.such.method"], 1),
            ] {
                let end = try Command.run(Products.commandLine, arguments, environment: home.clientEnvironment)
                #expect(end.status == status, "larder \(arguments): \(end)")
                #expect(end.text.isEmpty)
                #expect(end.log.hasPrefix("larder: "))
                #expect(end.log.count { $0 == "\n" } == 0)
            }
        }
    }

    @Test("push reads a file or standard input; an older version is rejected unless forced")
    func push() throws {
        try AgentHome.with(starting: true) { (home) throws in
            let file = "\(home.directory)/config.json"
            try Data(#"{"a": {"b": 1}}"#.utf8).write(to: URL(fileURLWithPath: file))
            #expect(try home.larder("push", file, "--version", "2").status == 0)
            #expect(try home.larder("get", "a.b").text == "1\n")
            let older = try home.larder("push", "-", "--version", "1", input: #"{"a": {"b": 0}}"#)
            #expect(older.status == 7)
            #expect(try home.larder("get", "a.b").text == "1\n")
            let forced = try home.larder("push", "-", "--version", "1", "--force", input: #"{"a": {"b": 0}}"#)
            #expect(forced.status == 0)
            #expect(try home.larder("get", "a.b").text == "0\n")
        }
    }

    @Test("status, info and clients print reports, and call prints JSON")
    func reports() throws {
        try AgentHome.with(starting: true) { (home) throws in
            let table = try home.larder("status").text.split(separator: "\n")
            #expect(table.first?.hasPrefix("NAMESPACE  STATE  SINCE ") == true, "\(table)")
            #expect(table.dropFirst().first?.hasPrefix("default    fresh  ") == true, "\(table)")
            let status = try home.larder("status", "--long")
            #expect(status.text.hasPrefix("default  fresh for "))
            #expect(status.text.contains("\n  layers      host "))
            #expect(try home.larder("status", "-n", "default").text.contains("\n  layers      host "))
            #expect(!status.text.contains("\u{1B}"))
            #expect(try home.larder("info").text.contains("socket      \(home.socket)\n"))
            // These commands are repeated, because the agent may not have closed the connection of the previous command
            // yet.
            let clients = try retrying {
                let lines = try home.larder("clients").text.split(separator: "\n")
                guard lines.count == 2 else { throw HarnessError("unexpected clients: \(lines)") }
                return lines
            }
            #expect(clients.last?.contains(" larder ") == true)
            try retrying {
                let stats = try JSONValue(parsing: try home.larder("call", "agent.stats").text)
                guard stats["connections"]?["open"] == 1 else { throw HarnessError("unexpected clients: \(stats)") }
            }
            #expect(try home.larder("call", "config.get", #"[""]"#, "--raw").text.hasPrefix(#"{"value":{}"#))
        }
    }

    @Test(
        "watch prints a line immediately for each change of the value, and ends after --count lines",
        arguments: [false, true])
    func watch(isPatched: Bool) throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", #"{"x": 1, "text": "one"}"#)
            let watch = try ChildProcess(
                Products.commandLine, ["watch", "a", "--count", "3"] + (isPatched ? ["--patch"] : []),
                environment: home.clientEnvironment)
            #expect(try watch.line() == #"{"x":1,"text":"one"}"#)
            try home.larder("set", "a.x", "2")
            #expect(try watch.line() == #"{"x":2,"text":"one"}"#)
            try home.larder("set", "b", "elsewhere")
            try home.larder("unset", "a")
            #expect(try watch.line() == "")
            #expect(try watch.finish() == Command(end: .exit(0), text: ""))
        }
    }

    @Test("watch survives a restart of the agent, reports it, and repeats no value")
    func watchAcrossRestart() throws {
        try AgentHome.with { (home) throws in
            let first = try home.start()
            try home.larder("set", "a", "1")
            let watch = try home.startLarder("watch", "a")
            #expect(try watch.line() == "1")
            #expect(try first.stop() == .exit(0))
            #expect(try watch.logLine()?.hasPrefix("larder: the agent ended the subscription") == true)
            let second = try home.start()
            try home.larder("set", "a", "2")
            #expect(try watch.line() == "2")
            watch.signal(SIGINT)
            #expect(try watch.finish().status == 130)
            #expect(try second.stop() == .exit(0))
        }
    }

    @Test("watch ends silently as soon as its reader exits, without waiting for a change")
    func brokenPipe() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", "1")
            let end = try Command.run(
                "/bin/bash", ["-c", "'\(try Products.thinCommandLine)' watch a | head -1; echo ${PIPESTATUS[0]}"],
                environment: home.clientEnvironment)
            #expect(end == Command(end: .exit(0), text: "1\n141\n"))
        }
    }

    @Test("an interrupted watch ends silently with status 130")
    func interrupted() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", "1")
            let watch = try home.startLarder("watch", "a")
            #expect(try watch.line() == "1")
            watch.signal(SIGINT)
            let end = try watch.finish()
            #expect(end.status == 130 && end.text.isEmpty && end.log.isEmpty, "\(end)")
        }
    }

    @Test("a write error on standard output is reported as a failure")
    func fullDisk() throws {
        try AgentHome.with(starting: true) { (home) throws in
            let end = try Command.run(
                "/bin/sh", ["-c", "'\(try Products.thinCommandLine)' ping > /dev/full"],
                environment: home.clientEnvironment)
            #expect(
                end
                    == Command(
                        end: .exit(1), text: "", log: "larder: cannot write to standard output: No space left on device"
                    ))
        }
    }

    @Test("explain --overrides lists the overrides with their expiry, author and reason")
    func overrides() throws {
        try AgentHome.with(starting: true) { (home) throws in
            let none = try home.larder("explain", "--overrides")
            #expect(none.end == .exit(0) && none.text.isEmpty)
            #expect(none.log == "larder: there are no overrides in namespace \"default\"")
            try home.larder("set", "search.limit", "20", "--reason", "load test")
            try home.larder("set", "search.name", "x", "--ttl", "9d")
            try home.larder("set", "log", #"{"level": "debug"}"#)
            let table = try home.larder("explain", "--overrides").text.split(separator: "\n").map {
                $0.replacing(#/ {2,}/#, with: "|").replacing(#/process \d+, user [^)]*/#, with: "PROCESS")
            }
            #expect(
                table == [
                    "PATH|VALUE|EXPIRES|AUTHOR|REASON", #"log|{"level":"debug"}|never|larder (PROCESS)"#,
                    "search.limit|20|never|larder (PROCESS)|load test",
                    #"search.name|"x"|in 8 d 23 h|larder (PROCESS)"#,
                ])
            let part = try home.larder("explain", "search.limit", "--overrides", "--json")
            let list = try JSONValue(parsing: part.text)
            #expect(list["overrides"]?.elements.map { $0["path"] } == ["search.limit"])
            #expect(list["overrides"]?[0]?["reason"] == "load test")
            #expect(list["next"] == .null)
            let wrong = try home.larder("explain", "--overrides", "-n", "nowhere")
            #expect(wrong.status == 3 && wrong.log.contains("default"))
        }
    }

    @Test("explain, history, diff, rollback, wait and acknowledge print their results")
    func revisions() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "search", #"{"limit": 10, "name": "x"}"#)
            let first = try JSONValue(parsing: try home.larder("get", "--json").text)["revision"]?.int ?? 0
            try home.larder("set", "search.limit", "20")
            let explanation = try home.larder("explain", "search.limit")
            #expect(explanation.text.hasPrefix("search.limit = 20  (default, revision \(first + 1))\n"))
            #expect(explanation.text.contains("*  override    20     set by larder (process "))
            let whole = try home.larder("explain", "search.limit", "--json")
            #expect(try JSONValue(parsing: whole.text)["winner"] == "override")

            let history = try home.larder("history").text.split(separator: "\n")
            #expect(history.count > 2)
            #expect(history[1].hasPrefix("*") && history[1].contains("set search.limit by larder"))
            #expect(
                try home.larder("diff", "\(first)")
                    == Command(end: .exit(0), text: "~ search.limit: 10 → 20\n"))
            #expect(try home.larder("diff", "\(first + 1)").text.contains("are equal"))
            #expect(try home.larder("diff", "9999").status == 3)
            #expect(try home.larder("rollback", "\(first)").text == "revision \(first + 2)\n")
            #expect(try home.larder("get", "search.limit").text == "10\n")
            #expect(try home.larder("rollback", "9999").status == 3)
            #expect(try home.larder("rollback", "--release").text.hasPrefix("unchanged"))

            #expect(try home.larder("wait", "search.limit=10").text == "10\n")
            #expect(try home.larder("wait", "!search.nope") == Command(end: .exit(0), text: ""))
            #expect(try home.larder("wait", "search.limit!=10", "--timeout", "10ms").status == 6)
            let wait = try home.startLarder("wait", "search.ready")
            try home.larder("set", "search.ready", "yes")
            #expect(try wait.finish() == Command(end: .exit(0), text: "yes\n"))

            let brief = try home.larder("acknowledge", "\(first + 2)")
            #expect(brief.text == "accepted revision \(first + 2)\n")
            #expect(brief.log.contains("--keep-connected"))
            let staying = try ChildProcess(
                Products.commandLine, ["acknowledge", "\(first + 2)", "--reject", "no port", "--keep-connected"],
                environment: home.clientEnvironment)
            #expect(try staying.line() == "rejected revision \(first + 2)")
            #expect(try home.larder("status", "--long").text.contains(": no port, "))
            #expect(try home.larder("status").text.contains("  rejected by 1 client\n"))
            #expect(try home.larder("clients").text.contains("not \(first + 2): no port"))
            staying.signal(SIGINT)
            #expect(try staying.finish().status == 130)
        }
    }

    @Test("if rollback --release does not change the document, the rollback is still reported as released")
    func release() throws {
        try AgentHome.with(starting: true) { (home) throws in
            func push(_ text: String) throws {
                try "{\"a\": \(text)}".write(
                    toFile: home.directory + "/pushed.json", atomically: true, encoding: .utf8)
                #expect(try home.larder("push", home.directory + "/pushed.json").status == 0)
            }
            try push("1")
            let first = try JSONValue(parsing: try home.larder("get", "--json").text)["revision"]?.int ?? 0
            try push("2")
            let back = try home.larder("rollback", "\(first)").text
            #expect(back.hasPrefix("revision \(first + 2); the current content of the sources is held back"))
            let row = try home.larder("status").text.split(separator: "\n")[1]
            #expect(row.contains("  held back  "), "\(row)")
            let refresh = try home.larder("refresh").text
            #expect(refresh.contains("; the document of the source is held back, because"), "\(refresh)")
            #expect(refresh.hasSuffix("end that with: larder rollback --release\n"), "\(refresh)")
            // With this override, the namespace has the same content before and after the rollback is released.
            try home.larder("set", "a", "3")
            let unchanged = "unchanged at revision \(first + 3)\n"
            #expect(try home.larder("rollback", "--release").text == "released, \(unchanged)")
            let none = try home.larder("rollback", "--release").text
            #expect(none.hasPrefix(unchanged.dropLast() + ", because no content of the sources was held back; "))
        }
    }

    @Test("render rejects a snapshot that it cannot use, and acknowledges the snapshot as rejected, with the reason")
    func acknowledgements() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", "1")
            let render = try ChildProcess(
                Products.commandLine,
                ["render", "--env", "\(home.directory)/app.env", "--watch", "--exec", "echo done"],
                environment: home.clientEnvironment)
            #expect(try render.logLine() == "done")
            try home.larder("set", "A", "2")
            #expect(try render.logLine()?.contains("would both become the variable A") == true)
            // larder sends the acknowledgement after it prints the note, so the list of clients may not have it yet.
            var clients = try home.larder("clients").text
            while !clients.contains("not ") { clients = try home.larder("clients").text }
            #expect(clients.contains("would both become the variable A"))
            render.signal(SIGTERM)
            _ = try render.finish()
        }
    }

    @Test("get --max-age returns immediately if there is no remote source")
    func maximumAge() throws {
        try AgentHome.with(starting: true) { (home) throws in
            try home.larder("set", "a", "1")
            #expect(try home.larder("get", "a", "--max-age", "1ms").text == "1\n")
            #expect(try home.larder("get", "a", "--max-age", "1ms", "--stale-if-error", "1h").text == "1\n")
        }
    }

    @Test("help and version are printed without an agent")
    func help() throws {
        for arguments in [["--help"], ["get", "--help"], ["help", "watch"], ["--version"]] {
            let end = try Command.run(Products.commandLine, arguments)
            #expect(end.status == 0)
            #expect(!end.text.isEmpty && end.log.isEmpty)
        }
    }
}
