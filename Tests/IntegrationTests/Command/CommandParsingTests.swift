import ArgumentParser
import Foundation
import LarderEncoding
import LarderJSON
import LarderClient
import LarderProtocol
import Testing

@testable import LarderCommand

@Suite("Parsing of the command line")
struct CommandParsingTests {
    @Test("shared options can precede or follow the verb")
    func leadingOptions() async throws {
        #expect(
            Arguments.normalized(["--socket", "/s", "--json", "get", "a", "--raw"])
                == ["get", "--socket", "/s", "--json", "a", "--raw"])
        #expect(Arguments.normalized(["--socket=/s", "ping"]) == ["ping", "--socket=/s"])
        for unchanged in [["--help"], [], ["get", "a"], ["--socket"], ["--socket", "/s"], ["--json", "--version"]] {
            #expect(Arguments.normalized(unchanged) == unchanged)
        }
        #expect(
            Arguments.normalized(["set", "a", "-5.5", "--ttl", "1m"]) == ["set", "a", "--ttl", "1m", "--", "-5.5"])
        #expect(Arguments.normalized(["set", "a", "--", "-5"]) == ["set", "a", "--", "-5"])
        #expect(Arguments.normalized(["get", "-5"]) == ["get", "-5"])
        #expect(Arguments.normalized(["increment", "n", "--by", "-1"]) == ["increment", "n", "--by=-1"])
        #expect(
            Arguments.normalized(["set", "a", "-5", "--if-value", "-6"]) == ["set", "a", "--if-value=-6", "--", "-5"])
        #expect(
            Arguments.normalized(["--json", "image", "ls", "--timeout", "1s"]) == [
                "image", "ls", "--json", "--timeout", "1s",
            ])
        #expect(Arguments.normalized(["--json", "image", "--help"]) == ["image", "--json", "--help"])
        let command = try #require(
            try await Larder.asyncParseAsRoot(Arguments.normalized(["-n", "web", "--timeout", "2s", "get"]))
                as? GetCommand)
        #expect(command.namespace.namespace == "web")
        #expect(command.agent.connection.timeout.duration == .seconds(2))
    }

    @Test("verbs accept their arguments and options")
    func verbs() async throws {
        let set = try #require(
            try await Larder.asyncParseAsRoot(["set", "a.b", "-n", "web", "--ttl", "10m", "--", "-5"]) as? SetCommand)
        #expect(set.path == "a.b")
        #expect(set.value == "-5")
        #expect(set.ttl?.duration == .seconds(600))
        let watch = try #require(
            try await Larder.asyncParseAsRoot(["watch", "--count", "3", "--patch"]) as? WatchCommand)
        #expect(watch.count == 3)
        #expect(watch.patch)
        #expect(watch.path.text == "")
        let push = try #require(
            try await Larder.asyncParseAsRoot(["push", "-", "--version", "7", "--force"]) as? PushCommand)
        #expect(push.file == "-")
        #expect(push.version == "7")
        let call = try #require(try await Larder.asyncParseAsRoot(["call", "agent.ping"]) as? CallCommand)
        #expect(call.params == nil)
        let exec = try #require(
            try await Larder.asyncParseAsRoot(
                ["exec", "--watch", "--signal", "SIGHUP", "--splay", "5s", "--", "env", "-u", "--watch"])
                as? ExecCommand)
        #expect(exec.command == ["env", "-u", "--watch"])
        #expect(exec.signal?.number == SIGHUP)
        let render = try #require(
            try await Larder.asyncParseAsRoot(["render", "t", "o", "--mode", "0640", "--owner", "u:g"])
                as? RenderCommand)
        #expect(render.output == "o")
        #expect(render.mode?.bits == 0o640)
        #expect(render.owner == FileOwner(argument: "u:g"))
        #expect(try await (Larder.asyncParseAsRoot(["render", "--json"]) as? RenderCommand)?.output == "-")
        let digest = String(repeating: "Ab", count: 32)
        let image = try #require(
            try await Larder.asyncParseAsRoot(
                [
                    "image", "get", "https://a/b", "-o", "-", "--policy", "networkFirst", "--max-age", "90s",
                    "--digest",
                    "sha256:\(digest)", "--cache-key", "b", "--deadline", "5s",
                ]) as? ImageGetCommand)
        #expect(image.image.reference == ImageReference(url: "https://a/b", cacheKey: "b"))
        #expect(image.output == "-")
        #expect(image.policy.policy == .networkFirst && image.policy.maximumAgeSeconds == 90)
        #expect(image.digest == WireDigest(digest.lowercased()))
        #expect(image.deadline?.duration == .seconds(5))
        let status = try #require(try await Larder.asyncParseAsRoot(["status"]) as? StatusCommand)
        #expect(status.namespace == nil)
    }

    @Test(
        "an invalid command line is a usage error",
        arguments: [
            ["get", "a", "b"], ["set", "a"], ["watch", "--count", "0"], ["watch", "--count", "x"], ["nope"],
            ["get", "--nope"], ["set", "a", "1", "--ttl", "soon"], ["ping", "--timeout", "0"], ["--socket"],
            ["exec"], ["exec", "env"], ["exec", "--"], ["exec", "--signal", "HUP", "--", "a"],
            ["exec", "--watch", "--signal", "NOPE", "--", "a"], ["exec", "--prefix", "9", "--", "a"],
            ["exec", "--watch", "--restart", "--signal", "HUP", "--", "a"], ["exec", "--splay", "1s", "--", "a"],
            ["render", "t"], ["render", "t", "o", "--mode", "640x"], ["render", "t", "o", "--owner", ":"],
            ["render", "t", "o", "p"], ["wait"], ["wait", "a", "--revision", "1"], ["rollback"],
            ["rollback", "1", "--release"], ["rollback", "--release", "--hold", "untilNewer"],
            ["rollback", "1", "--hold", "x"],
            ["rollback", "x"], ["diff"], ["history", "--limit", "0"],
            ["history", "--pin", "1", "--unpin", "1"], ["history", "--pin", "x"], ["backup"], ["restore"],
            ["get", "--stale-if-error", "1s"], ["acknowledge"], ["render", "--json", "t", "o"],
            ["image", "nope"], ["image", "get"], ["image", "get", "u", "--policy", "nope"],
            ["image", "get", "u", "--digest", "12"], ["image", "get", "u", "--json", "-o", "-"],
            ["image", "get", "u", "-o", ""], ["image", "prefetch"], ["image", "prefetch", "f", "--concurrency", "0"],
            ["image", "prefetch", "f", "--concurrency", "65"], ["image", "explain"], ["image", "rm"],
            ["image", "put", "f"], ["image", "put", "--url", "u"],
        ])
    func usageErrors(arguments: [String]) async {
        let error = await #expect(throws: (any Error).self) {
            try await Larder.asyncParseAsRoot(Arguments.normalized(arguments))
        }
        guard let error else { return }
        #expect(!Larder.exitCode(for: error).isSuccess)
        #expect(!Larder.message(for: error).contains("\n"))
    }

    @Test("the help names default times, when `status` reports a stale namespace, and how `render` escapes values")
    func helpDetails() {
        func words(_ verb: any ParsableCommand.Type) -> String {
            Larder.helpMessage(for: verb).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        #expect(
            words(StatusCommand.self).contains(
                "or the source last confirmed the snapshot longer ago than staleIfErrorSeconds in the settings"))
        #expect(words(WaitCommand.self).contains("if --timeout expires, which is 30 seconds unless given"))
        #expect(words(WaitCommand.self).contains("such as 500ms, 10s or 2m. Default: 30s."))
        #expect(words(DoctorCommand.self).contains("such as 500ms, 10s or 2m. Default: 5s."))
        #expect(words(ExecCommand.self).contains("changes within it are combined. Default: 1s."))
        #expect(words(RenderCommand.self).contains("escapes values for HTML; in a section, both apply until its end"))
    }

    @Test("the help of every verb has examples, and that of larder lists the exit statuses")
    func help() throws {
        let help = Larder.helpMessage()
        #expect(help.contains("  8  not available yet"))
        let groups = ["VALUES", "HISTORY", "SOURCES", "FILES AND PROGRAMS", "FEATURE FLAGS", "IMAGES", "AGENT"]
        let places = groups.map { help.firstRange(of: "\n\($0) SUBCOMMANDS:\n")?.lowerBound }
        #expect(!places.contains(nil))
        #expect(places.compactMap(\.self) == places.compactMap(\.self).sorted())
        for verb in Larder.configuration.subcommands {
            let name = verb.configuration.commandName ?? "?"
            #expect(Larder.helpMessage(for: verb).contains("EXAMPLES:\n  larder \(name)"))
        }
        for verb in ImageCommand.configuration.subcommands {
            let name = verb.configuration.commandName ?? "?"
            #expect(Larder.helpMessage(for: verb).contains("EXAMPLES:\n  larder image \(name)"))
        }
        for verb in FlagCommand.configuration.subcommands {
            let name = verb.configuration.commandName ?? "?"
            #expect(Larder.helpMessage(for: verb).contains("EXAMPLES:\n  larder flag \(name)"))
        }
        #expect(Arguments.helpCommand(["get", "--nope"]) == "larder get --help")
        #expect(Arguments.helpCommand(["image", "get", "--nope"]) == "larder image get --help")
        #expect(Arguments.helpCommand(["image", "nope"]) == "larder image --help")
        #expect(Arguments.unknownVerb(["image", "nope"]) == "image nope")
        #expect(Arguments.similarVerb(to: "image nope") == nil)
        #expect(Arguments.similarVerb(to: "image gte") == "image get")
        #expect(Arguments.similarVerb(to: "staus") == "status")
        #expect(Arguments.similarVerb(to: "nope") == nil)
        #expect(Arguments.similarVerb(to: "imge") == "image")
        #expect(Arguments.helpCommand(["nope"]) == "larder --help")
        #expect(Arguments.unknownVerb(["nope", "a"]) == "nope")
        for known in [
            ["get"], ["help"], ["--nope"], [], ["image"], ["image", "ls"], ["image", "--nope"], ["get", "a"],
        ] { #expect(Arguments.unknownVerb(known) == nil) }
    }

    @Test(
        "a valid time is parsed",
        arguments: [
            ("500ms", 500), ("90", 90_000), ("90s", 90_000), ("10m", 600_000), ("2h", 7_200_000),
            ("1d", 86_400_000), ("1h30m", 5_400_000), ("1m500ms", 60_500),
        ])
    func spans(text: String, milliseconds: Int) {
        #expect(TimeSpan(argument: text)?.milliseconds == milliseconds)
    }

    @Test(
        "an invalid time is rejected",
        arguments: [
            "", "0", "-5", "0s", "s", "5x", "1.5s", "5 s", "10m5", "99999999999999999999", "9223372036854775807d",
        ])
    func invalidSpans(text: String) {
        #expect(TimeSpan(argument: text) == nil)
    }

    @Test("wait parses conditions and rejects malformed ones")
    func conditions() throws {
        func parse(_ text: String, isString: Bool = false) throws -> (String, ConfigWait.Condition) {
            let (path, condition) = try WaitCommand.parse(text, isString: isString)
            return (path.description, condition)
        }
        #expect(try parse("a.b=true") == ("a.b", .equals(true)))
        #expect(try parse("a.b=true", isString: true) == ("a.b", .equals("true")))
        #expect(try parse("a!=x=y") == ("a", .notEquals("x=y")))
        #expect(try parse("/a.b/c={\"d\": [1]}") == ("/a.b/c", .equals(["d": [1]])))
        #expect(try parse("a=") == ("a", .equals("")))
        #expect(try parse("a=\"=1\"") == ("a", .equals("=1")))
        #expect(try parse("a.b") == ("a.b", .exists(true)))
        #expect(try parse("!a.b") == ("a.b", .exists(false)))
        #expect(try parse("/a>b") == ("a>b", .exists(true)))
        for text in [
            "a=null", "a..b", "a={", "a==1", "a>=1", "a<=1", "a = 1", "a= 1", "a !=1", "a>5", "!a<5", "a<b=1",
        ] {
            #expect(throws: Failure.self, "\(text)") { try parse(text) }
        }
    }

    @Test("the completion script of every shell contains the verbs")
    func completions() {
        let verbs = Larder.configuration.subcommands.map { $0._commandName }
        #expect(verbs.contains("explain") && verbs.contains("exec"))
        for shell in CompletionShell.allCases {
            let script = Larder.completionScript(for: shell)
            for verb in verbs { #expect(script.contains(verb), "\(verb) in \(shell.rawValue)") }
        }
    }

    @Test("a value argument is JSON if it is valid JSON, and otherwise a string")
    func values() throws {
        #expect(try ValueArgument.parse("25", isString: false) == 25)
        #expect(try ValueArgument.parse("true", isString: false) == true)
        #expect(try ValueArgument.parse("null", isString: false) == .null)
        #expect(try ValueArgument.parse(#"{"a": [1]}"#, isString: false) == ["a": [1]])
        #expect(try ValueArgument.parse(#""25""#, isString: false) == "25")
        for text in ["primary", "007", "1.2.3", "", "nul", "10m", "True", "a b"] {
            #expect(try ValueArgument.parse(text, isString: false) == .string(text))
        }
        #expect(try ValueArgument.parse("1.10", isString: true) == "1.10")
        #expect(try ValueArgument.parse("{", isString: true) == "{")
    }

    @Test(
        "a value argument that begins like JSON and is malformed is a usage error",
        arguments: [#"{"a":1"#, "[1,", " {a: 1}", #""open"#])
    func malformedJSON(text: String) {
        let failure = #expect(throws: Failure.self) { try ValueArgument.parse(text, isString: false) }
        #expect(failure?.status == .usage)
        #expect(failure?.message.contains("--string") == true)
    }

    @Test("a document that is not JSON is rejected with line and column")
    func documents() throws {
        #expect(try PushCommand.document(Array("{\"a\": 1}\n".utf8), name: "f") == ["a": 1])
        let failure = #expect(throws: Failure.self) {
            try PushCommand.document(Array("{\n  \"a\": x\n}".utf8), name: "config.json")
        }
        #expect(failure?.message.hasPrefix("config.json is not JSON: line 2, column 8: ") == true)
        let array = #expect(throws: Failure.self) { try PushCommand.document(Array("[]".utf8), name: "-") }
        #expect(array?.message == "standard input contains JSON of the type array; a configuration must be an object")
        #expect(throws: Failure.self) { try PushCommand.document([], name: "empty.json") }
    }

    @Test("parameters of call must be an object or an array")
    func callParameters() throws {
        #expect(try CallCommand.params(#"["a"]"#) == ["a"])
        #expect(throws: Failure.self) { try CallCommand.params("7") }
        #expect(throws: Failure.self) { try CallCommand.params("{") }
    }
}
