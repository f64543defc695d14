import Glibc
import LarderJSON
import LarderClient
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

extension Integration {
    @Suite("Errors and hints of the command line")
    struct CommandErrorTests {
        private typealias Failure = LarderCommand.Failure

        @Test("with --json, an error is one line of JSON on standard error with the protocol's name and code")
        func jsonErrors() throws {
            try AgentHome.with(starting: true) { home in
                for (arguments, name, code, status): ([String], String, JSONValue, Int) in [
                    (["get", "no.such", "--json"], "notFound", 1, 3),
                    (["--json", "get", "-n", "x"], "unknownNamespace", 2, 3),
                    (["call", "no.such", "--json"], "methodNotFound", -32601, 1),
                    (["ping", "--json", "--socket", "/none"], "unreachable", .null, 5),
                    (["nope", "--json"], "usage", .null, 2),
                    (["wait", "a", "--json", "--timeout", "10ms"], "timeout", 4, 6),
                    (["get", "/~2", "--json"], "usage", .null, 2),
                    (["image", "get", "ftp://x", "--json"], "invalidParams", -32602, 2),
                ] {
                    let end = try Command.run(Products.commandLine, arguments, environment: home.clientEnvironment)
                    #expect(end.status == Int32(status), "\(arguments): \(end)")
                    #expect(end.text.isEmpty)
                    let error = try JSONValue(parsing: end.log)
                    #expect(error["name"]?.string == name, "\(end.log)")
                    #expect(error["code"] == code, "\(end.log)")
                    #expect(error["exitStatus"]?.int == status)
                    #expect(error["message"]?.string?.isEmpty == false)
                }
                let text = try home.larder("get", "no.such")
                #expect(text.log.hasPrefix("larder: Not found"))
                let render = try home.larder("render", "--json", "--path", "no.such")
                #expect(render.log.hasPrefix("larder: "), "--json of render selects the format of the file")
            }
        }

        @Test("unset of a path without overrides succeeds, says so and suggests a path")
        func unsetWithoutOverride() throws {
            try AgentHome.with(starting: true) { home in
                try home.larder("set", "search.limit", "25")
                try home.larder("set", "log", #"{"level": "debug"}"#)
                let mistyped = try home.larder("unset", "serch.limit")
                #expect(mistyped.end == .exit(0) && mistyped.text.hasPrefix("unchanged at revision "))
                #expect(
                    mistyped.log
                        == "larder: there is no override at \"serch.limit\" or below it in namespace \"default\"; did you "
                        + "mean search.limit?")
                let json = try home.larder("unset", "serch.limit", "--json")
                #expect(try JSONValue(parsing: json.text)["changed"] == false)
                #expect(try JSONValue(parsing: json.log)["note"]?.string?.contains("search.limit") == true)
                let inside = try home.larder("unset", "log.level")
                #expect(
                    inside.log.hasSuffix(
                        "the override at \"log\" may contain it: larder unset log removes that one as a whole, and larder "
                            + "set log.level VALUE replaces the member"),
                    "\(inside.log)")
                let other = try home.larder("unset", "zzz")
                #expect(other.log.hasSuffix("in namespace \"default\""), "\(other.log)")
                #expect(try home.larder("unset", "search").log.isEmpty)
                #expect(try home.larder("unset", "--all", "--dry-run").log.isEmpty)
                try home.larder("unset", "--all")
                #expect(try home.larder("unset", "--all").log.contains("there are no overrides"))
            }
        }

        @Test("a mistyped flag is an error with a suggestion")
        func flagSuggestions() throws {
            let settings = "{ namespaces: { default: { flags: { member: 'flags' } } } }"
            try AgentHome.with(settings: settings, starting: true) { home in
                let flag = #"{"state": "ENABLED", "variants": {"on": true}, "defaultVariant": "on"}"#
                try home.larder("set", "flags.new-checkout", flag)
                #expect(try home.larder("flag", "evaluate", "new-checkout").text == "true\n")
                #expect(try home.larder("flag", "evaluate", "new-chekout", "--default", "1").text == "1\n")
                let mistyped = try home.larder("flag", "evaluate", "new-chekout")
                #expect(mistyped.status == 3)
                #expect(mistyped.log.hasSuffix("; did you mean new-checkout?"), "\(mistyped.log)")
            }
        }

        @Test("a refresh names the missing source of a namespace that has none")
        func refreshWithoutSource() throws {
            try AgentHome.with(starting: true) { home in
                let text = try home.larder("refresh").text
                #expect(text.hasSuffix("; the namespace has no source, so only files were read\n"), "\(text)")
            }
        }

        @Test("a mistyped verb or path is an error with a suggestion")
        func suggestions() throws {
            try AgentHome.with(starting: true) { home in
                try home.larder("set", "search.limit", "25")
                try home.larder("set", "/flat.key", "1")
                let verb = try home.larder("staus")
                #expect(verb.status == 2)
                #expect(verb.log == "larder: unknown verb \"staus\"; write larder status; see larder --help")
                let image = try home.larder("image", "gte")
                #expect(
                    image.log == "larder: unknown verb \"image gte\"; write larder image get; see larder image --help"
                )
                let path = try home.larder("get", "search.limt")
                #expect(path.status == 3)
                #expect(path.log.hasSuffix("; did you mean search.limit?"), "\(path.log)")
                let flat = try home.larder("get", "flat.key", "--json")
                #expect(
                    try JSONValue(parsing: flat.log)["message"]?.string?.hasSuffix("did you mean /flat.key?") == true)
                for arguments in [
                    ["exec", "--path", "serch", "--", "true"], ["exec", "--watch", "--path", "serch", "--", "true"],
                    ["render", "--env", "--path", "serch"], ["render", "--json", "--watch", "--path", "serch"],
                ] {
                    let program = try Command.run(Products.commandLine, arguments, environment: home.clientEnvironment)
                    #expect(program.status == 3)
                    #expect(program.log.hasSuffix("; did you mean search?"), "\(arguments): \(program.log)")
                }
                let watch = try home.larder("watch", "search.limt", "--count", "1")
                #expect(watch == Command(end: .exit(0), text: "\n", log: "larder: did you mean search.limit?"))
                let explanation = try home.larder("explain", "search.limt")
                #expect(explanation.status == 0)
                #expect(explanation.log == "larder: did you mean search.limit?")
                #expect(try home.larder("explain", "search.limit").log.isEmpty)
            }
        }

        @Test("wait waits for an agent that is not running yet, and reports one that never runs as unreachable")
        func waitForAgent() throws {
            try AgentHome.with { home in
                let never = try home.larder("wait", "a", "--timeout", "10ms")
                #expect(never.status == 5)
                let wait = try home.startLarder("wait", "a", "--timeout", "5m")
                #expect(try wait.logLine()?.hasSuffix("; waiting for the agent") == true)
                let agent = try home.start()
                try agent.call("config.set", ["a", 7])
                #expect(try wait.finish().text == "7\n")
            }
        }

        @Test("systemd is asked about an agent that does not reply, and calls wait unless the service cannot run")
        func serviceInquiry() async {
            func units(_ state: String, _ restarts: Int, isListening: Bool = true) -> ServiceFacts {
                var units = ServiceFacts.Units.healthy
                units.service = ServiceFacts.Units.unit(["ActiveState": state, "NRestarts": "\(restarts)"])
                if !isListening { units.socket = ServiceFacts.Units.unit(["ActiveState": "inactive"]) }
                return .units(units)
            }
            /// The message of the failure, and the intervals at which systemd was asked. After the last of the facts, the
            /// reply arrives.
            func inquire(_ facts: [ServiceFacts], idleFor idle: Int = 0) async -> (String?, [Duration]) {
                var (rest, intervals, failures, idle) = (facts[...], [Duration](), [Failure](), idle)
                let inquiry = ServiceInquiry(doctor: "larder doctor --socket /s") {
                    defer { idle -= 1 }
                    return idle <= 0
                } probe: {
                    rest.removeFirst()
                } sleep: {
                    if rest.isEmpty { throw CancellationError() }
                    intervals.append($0)
                }
                await inquiry.run { failures.append(Failure($0)) }
                #expect(failures.allSatisfy { $0.status == .unreachable } && failures.count < 2)
                return (failures.first?.message, intervals)
            }
            let advice = "; find the cause with: larder doctor --socket /s"
            let failed = await inquire([units("failed", 30)])
            #expect(failed.0 == "the agent does not reply: larder.service has failed" + advice)
            #expect(failed.1 == [.seconds(2)])
            let loop = await inquire([units("activating", 3), units("active", 4), units("activating", 6)])
            #expect(
                loop.0 == "the agent does not reply: systemd has restarted larder.service 6 times" + advice)
            #expect(loop.1 == [.seconds(2), .seconds(2), .seconds(4)])
            let slow = await inquire([units("activating", 3), units("activating", 3), units("active", 3)])
            #expect(slow.0 == nil, "one restart that takes long is no loop")
            #expect(await inquire([units("active", 9), units("active", 9)]).0 == nil)
            #expect(await inquire([units("failed", 9, isListening: false)]).0 == nil, "the socket is of another agent")
            let another = await inquire([.another, units("failed", 9)])
            #expect(another.0 == nil && another.1.count == 1)
            let unknown = await inquire([.unknown("systemctl did not end in time"), units("failed", 1)])
            #expect(unknown.0 != nil && unknown.1 == [.seconds(2), .seconds(2)])
            let long = await inquire(Array(repeating: units("active", 0), count: 9))
            #expect(long.1.last == .seconds(60))
            let idle = await inquire([units("failed", 1)], idleFor: 2)
            #expect(idle.0 != nil && idle.1.count == 3, "systemd is not asked while no call waits")
        }

        @Test("a value that is longer than a request may be is refused before it is sent, with advice")
        func longValue() throws {
            try AgentHome.with(starting: true) { home in
                let text = String(repeating: "x", count: 1 << 20)
                try home.write("value", text)
                let end = try home.larder("set", "a", "--value-from", home.directory + "/value", "--json")
                #expect(end.status == 1)
                let error = try JSONValue(parsing: end.log)
                #expect(error["name"] == "lineTooLong")
                #expect(error["code"] == -32700)
                #expect(error["message"]?.string?.contains("raise limits.lineBytes") == true, "\(end.log)")
                let statistics = try JSONValue(parsing: home.larder("call", "agent.stats").text)
                #expect(statistics["refused"]?["lines"] == 0)
                try home.write("value", String(text.dropLast(1024)))
                #expect(try home.larder("set", "a", "--value-from", home.directory + "/value").status == 0)
            }
        }

        @Test("the error of a namespace without a document gives the reason, and names no method of the protocol")
        func unavailableNamespace() throws {
            // Nothing listens on this port.
            let silent = try RawOrigin()
            defer { silent.stop() }
            let settings =
                "{ namespaces: { w: { remote: { http: { url: '\(silent.url)', intervalSeconds: 86400 } } } } }"
            try AgentHome.with(settings: settings) { home in
                let agent = try home.start()
                _ = try agent.connect().refusal("config.refresh", ["namespace": "w"])
                let get = try home.larder("get", "-n", "w")
                #expect(get.status == 8)
                #expect(get.log.contains("has not delivered a valid document yet: "), "\(get.log)")
                #expect(get.log.contains("Connection refused"), "\(get.log)")
                #expect(!get.log.contains("config."), "\(get.log)")
            }
        }

        @Test("advice names commands of larder, with the socket, and repeats no advice of the agent")
        func advice() {
            let hints = Hints(socket: "/tmp/my socket")
            #expect(
                Failure(LarderClientError(remote: WireError(.methodNotFound, "unknown method \"x\"")), hints).message
                    == "Method not found: unknown method \"x\"; the agent may have an older version; list its methods with: "
                    + "larder call rpc.discover --socket '/tmp/my socket'")
            let address = WireError(.forbiddenAddress, "not allowed; add it to images.allowNetworks")
            #expect(
                Failure(LarderClientError(remote: address), hints).message
                    == "Address not allowed: not allowed; add it to images.allowNetworks")
        }

        @Test("with --json, a denial names the missing right, and notes on standard error are JSON too")
        func jsonDetails() throws {
            let error = LarderClientError(remote: WireError(lacking: .write, in: "shop", "no"))
            #expect(
                Failure(error).json
                    == #"{"name":"denied","code":3,"message":"Denied: no","right":"write","namespace":"shop","exitStatus":4}"#
            )
            try AgentHome.with { home in
                let agent = try home.start()
                let watch = try home.startLarder("watch", "--json")
                _ = try watch.line()
                #expect(try agent.stop() == .exit(0))
                let note = try require(try watch.logLine(), "note")
                #expect(try JSONValue(parsing: note)["note"]?.string?.contains("reconnecting") == true)
                watch.signal(SIGTERM)
                _ = try watch.finish()
            }
        }

        @Test("a hint is a complete command, with the namespace and socket of the command line")
        func hints() throws {
            let hints = Hints(socket: "/tmp/it's here/sock")
            #expect(
                hints.command("larder refresh --force", namespace: "shop")
                    == #"larder refresh --force --namespace shop --socket '/tmp/it'\''s here/sock'"#)
            #expect(Hints().command("larder status", namespace: "default") == "larder status")
            #expect(Hints(socket: "/run/a.sock").command("larder status") == "larder status --socket /run/a.sock")

            try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
                _ = try home.start()
                func run(_ arguments: String...) throws -> Command {
                    try Command.run(Products.commandLine, arguments + ["--socket", home.socket])
                }
                func push(_ text: String) throws -> Command {
                    try home.write("pushed.json", text)
                    return try run("push", home.directory + "/pushed.json", "-n", "shop")
                }
                let members = (1...20).map { "\"m\($0)\":1" }.joined(separator: ",")
                _ = try push("{\(members)}")
                let first = try JSONValue(parsing: try run("get", "--json", "-n", "shop").text)["revision"]?.int ?? 0
                let options = "--namespace shop --socket \(home.socket)"
                _ = try push("{\(members),\"other\":1}")
                let back = try run("rollback", "\(first)", "-n", "shop").text
                #expect(back.contains("until: larder rollback --release \(options)\n"), "\(back)")
                _ = try push(#"{"other": 2}"#)
                let status = try run("status", "-n", "shop").text
                #expect(status.contains("with: larder rollback --release \(options)\n"), "\(status)")
                #expect(status.contains("with: larder push FILE --force \(options)\n"), "\(status)")
                let doctor = try run("doctor").text
                #expect(doctor.contains("larder push FILE --force \(options)\n"), "\(doctor)")
                #expect(doctor.contains("larder rollback --release \(options)\n"), "\(doctor)")
            }
        }

        @Test(
            "the error for an invalid time describes valid times, even if the time begins with a dash",
            arguments: ["-1s", "0", "5x", "99999999999999999999d", "999999999d", "3661d"])
        func times(text: String) throws {
            for arguments in [
                ["set", "a", "1", "--ttl", text], ["get", "--timeout", text], ["get", "--timeout=\(text)"],
            ] {
                let end = try Command.run(Products.commandLine, arguments)
                #expect(end.status == 2)
                #expect(
                    end.log.hasPrefix(
                        "larder: The value '\(text)' is invalid for '\(arguments.contains("--ttl") ? "--ttl" : "--timeout") <time>': "
                            + "write a time greater than 0 and at most 3660 days, such as 500ms, 90s, 10m, 1h30m or 7d"),
                    "\(end.log)")
            }
        }

        @Test("set accepts a negative number as its value, even with --ttl")
        func negativeValues() throws {
            #expect(
                Arguments.normalized(["set", "a", "-5", "--ttl", "10m"]) == ["set", "a", "--ttl", "10m", "--", "-5"])
            #expect(
                Arguments.normalized(["exec", "--", "x", "--timeout", "-5"]) == ["exec", "--", "x", "--timeout", "-5"])
        }
    }
}
