import Foundation
import JSON
import TestSupport
import Testing

@Suite("The larder program against a real agent", .timeLimit(.minutes(3)))
struct CommandLineTests {
    private typealias End = SpawnedProgram.End

    @Test("ping, and the socket by option, before or behind the verb, or by environment")
    func ping() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            let pong = End(status: 0, output: "pong\n", errors: "")
            #expect(try await agent.larder("ping") == pong)
            #expect(try await SpawnedProgram.run("larder", ["ping", "--socket", agent.socket]) == pong)
            #expect(try await SpawnedProgram.run("larder", ["--socket", agent.socket, "ping"]) == pong)
            #expect(try await agent.larder("ping", "--json").output == "{\"pong\":true}\n")
        }
    }

    @Test("set, get and unset: bare scalars, pretty and compact objects, the whole result")
    func values() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            #expect(try await agent.larder("set", "search.limit", "25").status == 0)
            #expect(try await agent.larder("set", "search.name", "primary one").status == 0)
            #expect(try await agent.larder("set", "search.version", "--string", "1.10").status == 0)
            #expect(try await agent.larder("set", "search.exact", "12345678901234567890.1000").status == 0)
            #expect(try await agent.larder("get", "search.limit").output == "25\n")
            #expect(try await agent.larder("get", "/search/name").output == "primary one\n")
            #expect(try await agent.larder("get", "search.exact").output == "12345678901234567890.1000\n")
            #expect(
                try await agent.larder("get", "search", "--raw").output
                    == #"{"limit":25,"name":"primary one","version":"1.10","exact":12345678901234567890.1000}"# + "\n")
            #expect(try await agent.larder("get", "search").output.hasPrefix("{\n  \"limit\": 25,\n"))
            let result = try JSONValue(parsing: try await agent.larder("get", "search.limit", "--json").output)
            #expect(result["value"] == 25)
            #expect(result["epoch"]?.string?.utf8.count == 16)
            #expect(try await agent.larder("unset", "search.limit").output.hasPrefix("revision "))
            #expect(try await agent.larder("unset", "search.limit").output.hasPrefix("unchanged at revision "))
            #expect(try await agent.larder("get", "search.limit").status == 3)
        }
    }

    @Test("every failure is one line on standard error and a documented status")
    func failures() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            for (arguments, status): ([String], Int32) in [
                (["get", "no.such.path"], 3), (["get", "-n", "nope"], 3), (["get", "/a~2"], 2), (["nope"], 2),
                (["set", "a", "{"], 2), (["get", "--socket", "\(agent.directory)/none.sock"], 5),
                (["watch", "--socket", "\(agent.directory)/none.sock"], 5),
                (["push", "\(agent.directory)/none.json"], 1), (["push", "-"], 2), (["call", "no.such.method"], 1),
            ] {
                let end = try await SpawnedProgram.run("larder", arguments, environment: agent.environment)
                #expect(end.status == status, "larder \(arguments): \(end)")
                #expect(end.output.isEmpty)
                #expect(end.errors.hasPrefix("larder: "))
                #expect(end.errors.count { $0 == "\n" } == 1)
            }
        }
    }

    @Test("push from a file and from standard input; an older version is rejected unless forced")
    func push() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            let file = "\(agent.directory)/config.json"
            try Data(#"{"a": {"b": 1}}"#.utf8).write(to: URL(fileURLWithPath: file))
            #expect(try await agent.larder("push", file, "--version", "2").status == 0)
            #expect(try await agent.larder("get", "a.b").output == "1\n")
            let older = try await agent.larder("push", "-", "--version", "1", input: #"{"a": {"b": 0}}"#)
            #expect(older.status == 7)
            #expect(try await agent.larder("get", "a.b").output == "1\n")
            let forced = try await agent.larder("push", "-", "--version", "1", "--force", input: #"{"a": {"b": 0}}"#)
            #expect(forced.status == 0)
            #expect(try await agent.larder("get", "a.b").output == "0\n")
        }
    }

    @Test("status, info and clients are for people; call is for everything else")
    func reports() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            let status = try await agent.larder("status")
            #expect(status.output.hasPrefix("default  fresh for "))
            #expect(status.output.contains("\n  layers      host "))
            #expect(!status.output.contains("\u{1B}"))
            #expect(try await agent.larder("info").output.contains("socket      \(agent.socket)\n"))
            let clients = try await agent.larder("clients").output.split(separator: "\n")
            #expect(clients.count == 2)
            #expect(clients.last?.contains(" larder ") == true)
            let stats = try JSONValue(parsing: try await agent.larder("call", "agent.stats").output)
            #expect(stats["connections"]?["open"] == 1)
            #expect(try await agent.larder("call", "config.get", #"[""]"#, "--raw").output.hasPrefix(#"{"value":{}"#))
        }
    }

    @Test("watch prints a line at once for each snapshot and ends after its count", arguments: [false, true])
    func watch(isPatched: Bool) async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "a", #"{"x": 1, "text": "one"}"#)
            let watch = try SpawnedProgram(
                "larder", ["watch", "a", "--count", "3"] + (isPatched ? ["--patch"] : []),
                environment: agent.environment)
            #expect(await watch.line() == #"{"x":1,"text":"one"}"#)
            _ = try await agent.larder("set", "a.x", "2")
            #expect(await watch.line() == #"{"x":2,"text":"one"}"#)
            _ = try await agent.larder("set", "b", "elsewhere")
            _ = try await agent.larder("unset", "a")
            #expect(await watch.line() == "")
            #expect(await watch.end() == End(status: 0, output: "", errors: ""))
        }
    }

    @Test("watch survives a restart of the agent, says so, and repeats nothing")
    func watchAcrossRestart() async throws {
        try await TemporaryAgent.withDirectory { (agent) async throws in
            let first = try await agent.start()
            _ = try await agent.larder("set", "a", "1")
            let watch = try SpawnedProgram("larder", ["watch", "a"], environment: agent.environment)
            #expect(await watch.line() == "1")
            await agent.stop(first)
            #expect(await watch.errorLine()?.hasPrefix("larder: the agent ended the subscription") == true)
            let second = try await agent.start()
            _ = try await agent.larder("set", "a", "2")
            #expect(await watch.line() == "2")
            watch.signal(SIGINT)
            #expect(await watch.end().status == 130)
            await agent.stop(second)
        }
    }

    @Test("a watch whose reader has gone ends at once and quietly, without waiting for the next change")
    func brokenPipe() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "a", "1")
            let end = try await SpawnedProgram.run(
                "/bin/bash", ["-c", "'\(SpawnedProgram.products)/larder' watch a | head -1; echo ${PIPESTATUS[0]}"],
                environment: agent.environment)
            #expect(end == End(status: 0, output: "1\n141\n", errors: ""))
        }
    }

    @Test("an interrupted watch ends quietly as a shell expects it")
    func interrupted() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "a", "1")
            let watch = try SpawnedProgram("larder", ["watch", "a"], environment: agent.environment)
            #expect(await watch.line() == "1")
            watch.signal(SIGINT)
            #expect(await watch.end() == End(status: 130, output: "", errors: ""))
        }
    }

    @Test("a full disk is a failure and no silence")
    func fullDisk() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            let end = try await SpawnedProgram.run(
                "/bin/sh", ["-c", "'\(SpawnedProgram.products)/larder' ping > /dev/full"],
                environment: agent.environment)
            #expect(
                end
                    == End(
                        status: 1, output: "",
                        errors: "larder: cannot write to standard output: No space left on device\n"))
        }
    }

    @Test("explain, history, diff, rollback, wait and acknowledge")
    func revisions() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "search", #"{"limit": 10, "name": "x"}"#)
            let first = try JSONValue(parsing: try await agent.larder("get", "--json").output)["revision"]?.int ?? 0
            _ = try await agent.larder("set", "search.limit", "20")
            let explanation = try await agent.larder("explain", "search.limit")
            #expect(explanation.output.hasPrefix("search.limit = 20  (default, revision \(first + 1))\n"))
            #expect(explanation.output.contains("*  override    20     set by larder (process "))
            let whole = try await agent.larder("explain", "search.limit", "--json")
            #expect(try JSONValue(parsing: whole.output)["winner"] == "override")

            let history = try await agent.larder("history").output.split(separator: "\n")
            #expect(history.count > 2)
            #expect(history[1].hasPrefix("*") && history[1].contains("set search.limit by larder"))
            #expect(
                try await agent.larder("diff", "\(first)")
                    == End(status: 0, output: "~ search.limit: 10 → 20\n", errors: ""))
            #expect(try await agent.larder("diff", "\(first + 1)").output.contains("say the same"))
            #expect(try await agent.larder("diff", "9999").status == 3)
            #expect(try await agent.larder("rollback", "\(first)").output == "revision \(first + 2)\n")
            #expect(try await agent.larder("get", "search.limit").output == "10\n")
            #expect(try await agent.larder("rollback", "9999").status == 3)
            #expect(try await agent.larder("rollback", "--release").output.hasPrefix("unchanged"))

            #expect(try await agent.larder("wait", "search.limit=10").output == "10\n")
            #expect(try await agent.larder("wait", "!search.nope") == End(status: 0, output: "", errors: ""))
            #expect(try await agent.larder("wait", "search.limit!=10", "--timeout", "10ms").status == 6)
            let wait = try SpawnedProgram("larder", ["wait", "search.ready"], environment: agent.environment)
            _ = try await agent.larder("set", "search.ready", "yes")
            #expect(await wait.end() == End(status: 0, output: "yes\n", errors: ""))

            let brief = try await agent.larder("acknowledge", "\(first + 2)")
            #expect(brief.output == "accepted revision \(first + 2)\n")
            #expect(brief.errors.contains("--stay"))
            let staying = try SpawnedProgram(
                "larder", ["acknowledge", "\(first + 2)", "--refuse", "no port", "--stay"],
                environment: agent.environment)
            #expect(await staying.line() == "refused revision \(first + 2)")
            #expect(try await agent.larder("status").output.contains(": no port, "))
            #expect(try await agent.larder("clients").output.contains("not \(first + 2): no port"))
            staying.signal(SIGINT)
            #expect(await staying.end().status == 130)
        }
    }

    @Test("a release that shows the same as what was held says that it is one")
    func release() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            func push(_ text: String) async throws {
                try "{\"a\": \(text)}".write(
                    toFile: agent.directory + "/pushed.json", atomically: true, encoding: .utf8)
                #expect(try await agent.larder("push", agent.directory + "/pushed.json").status == 0)
            }
            try await push("1")
            let first = try JSONValue(parsing: try await agent.larder("get", "--json").output)["revision"]?.int ?? 0
            try await push("2")
            let back = try await agent.larder("rollback", "\(first)").output
            #expect(back.hasPrefix("revision \(first + 2); what the sources say now is held back"))
            // An override makes the same of what is held and what is not.
            _ = try await agent.larder("set", "a", "3")
            let unchanged = "unchanged at revision \(first + 3)\n"
            #expect(try await agent.larder("rollback", "--release").output == "released, \(unchanged)")
            #expect(try await agent.larder("rollback", "--release").output == unchanged)
        }
    }

    @Test("render and exec say what they use, and what they cannot use and why")
    func acknowledgements() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "a", "1")
            let render = try SpawnedProgram(
                "larder", ["render", "--env", "\(agent.directory)/app.env", "--watch", "--exec", "echo done"],
                environment: agent.environment)
            #expect(await render.errorLine() == "done")
            _ = try await agent.larder("set", "A", "2")
            #expect(await render.errorLine()?.contains("would both be A") == true)
            // The acknowledgement follows the note; it is there once the next question is answered.
            var clients = try await agent.larder("clients").output
            while !clients.contains("not ") { clients = try await agent.larder("clients").output }
            #expect(clients.contains("would both be A"))
            render.signal(SIGTERM)
            _ = await render.end()
        }
    }

    @Test("a value no older than asked: without a remote source always at once")
    func maximumAge() async throws {
        try await TemporaryAgent.with { (agent) async throws in
            _ = try await agent.larder("set", "a", "1")
            #expect(try await agent.larder("get", "a", "--max-age", "1ms").output == "1\n")
            #expect(try await agent.larder("get", "a", "--max-age", "1ms", "--stale-if-error", "1h").output == "1\n")
        }
    }

    @Test("help is printed for every verb and needs no agent")
    func help() async throws {
        for arguments in [["--help"], ["get", "--help"], ["help", "watch"], ["--version"]] {
            let end = try await SpawnedProgram.run("larder", arguments)
            #expect(end.status == 0)
            #expect(!end.output.isEmpty && end.errors.isEmpty)
        }
    }
}
