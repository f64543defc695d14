import ArgumentParser
import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Usage errors and values that begin with a dash")
struct UsageMessageTests {
    private static let secret = "c2VjcmV0"

    private func message(_ arguments: [String]) async -> String? {
        let arguments = Arguments.normalized(arguments)
        do {
            _ = try await Larder.asyncParseAsRoot(arguments)
            return nil
        } catch {
            return await UsageMessage.text(for: error, arguments)
        }
    }

    @Test(
        "an error of a verb with values shows no argument but the options",
        arguments: [
            ["set", "key", "--\(secret)"], ["set", "key", "-\(secret)"], ["set", "key", "--\(secret)=x"],
            ["set", "key", "a", secret], ["set", "key", "a", "--tttl", secret], ["set", "key", "--dry-run=\(secret)"],
            ["set", "key", "a", "--", secret], ["replace", "{}", secret], ["replace", "-\(secret)"],
            ["set", "key", "-----\(secret)", "b"],
            ["set", "", secret], ["unset", "key", secret], ["wait", "key=1", secret], ["wait", "a", "--x=\(secret)"],
            ["call", "m", "{}", secret], ["call", "m", "-\(secret)"],
            ["set", "key", secret, "--value-from", "f"],
        ])
    func secrets(arguments: [String]) async throws {
        let text = try #require(await message(arguments))
        #expect(!text.contains(Self.secret), "\(text)")
    }

    @Test("an error of a verb with values still names the cause")
    func causes() async throws {
        #expect(
            await message(["set", "a", "--x"])?.hasSuffix("; write -- before a value that begins with a dash") == true)
        #expect(
            await message(["set", "a", "1", "--ttl", "soon"])?.contains("'soon' is invalid for '--ttl <time>'") == true)
        #expect(
            await message(["wait", "a", "--equals"])
                == "Unknown option '--…'; write -- before a value that begins with a dash",
            "no option is suggested that is only similar to the mask")
        let surplus = try #require(await message(["set", "a", "1", "--ttl", "1m", "2"]))
        #expect(surplus == "Unexpected argument '…'", "\(surplus)")
        #expect(await message(["set"])?.contains("<path>") == true)
        #expect(await message(["set", "a"])?.contains("<value>") == true)
        #expect(await message(["get", "--jsn"])?.contains("'--jsn'") == true)
    }

    @Test("an error of a verb with values suggests the option that is most similar, and the form PATH VALUE")
    func suggestions() async throws {
        #expect(
            await message(["set", "a", "1", "--tttl=5m"])
                == "Unknown option '--…'; did you mean --ttl? Otherwise write -- before a value that begins with a dash"
        )
        #expect(await message(["wait", "a", "--timout", "5s"])?.contains("did you mean --timeout?") == true)
        let assignment = try #require(await message(["set", "key=\(Self.secret)"]))
        #expect(assignment == "PATH and VALUE are two words; write larder set PATH VALUE")
    }

    @Test("a path without a value gets a suggestion that fits the document")
    func paths() throws {
        let document = try JSONValue(
            parsing: """
                {"search": {"limit": 25}, "servers": [{"port": 1}], "flat.key": {"x": 1},
                 "hosts": {"a.example.org": 1}}
                """)
        for (path, advice) in [
            ("search.limt", "did you mean search.limit?"), ("serch.limit", "did you mean search.limit?"),
            ("/search/limt", "did you mean search.limit?"),
            ("servers[0]", "did you mean servers.0?"), ("servers[0].port", "did you mean servers.0.port?"),
            ("servers[7]", "write an array index as in servers.0"),
            ("flat.key", "did you mean /flat.key?"), ("flat.key.x", "did you mean /flat.key/x?"),
            ("hosts.a.example.org", "did you mean /hosts/a.example.org?"),
            ("k=v", "to change a value, write larder set PATH VALUE"),
            ("unrelated", nil), ("search.limit.deeper", nil), ("servers.9", nil), ("search..limit", nil),
        ] as [(String, String?)] { #expect(PathAdvice.text(for: path, in: document) == advice, "\(path)") }
        let member = try JSONValue(parsing: #"{"it's": {"one": 1}}"#)
        #expect(PathAdvice.text(for: "its.one", in: member) == #"did you mean 'it'\''s.one'?"#)
    }

    @Test("an option takes the next word as its value, whatever it begins with")
    func optionValues() async throws {
        for reason in ["-5% from Monday", "--json", "-----BEGIN KEY-----", "---", "--", "-", "-=", "a"] {
            let words = ["set", "price.change", "--reason", reason, "10"]
            let command = try #require(try await Larder.asyncParseAsRoot(Arguments.normalized(words)) as? SetCommand)
            #expect(command.change.reason == reason)
            #expect(command.value == "10")
        }
        let short = try #require(
            try await Larder.asyncParseAsRoot(Arguments.normalized(["get", "a", "-n", "-x"])) as? GetCommand)
        #expect(short.namespace.namespace == "-x")
        let output = try #require(
            try await Larder.asyncParseAsRoot(Arguments.normalized(["image", "get", "u", "-o", "--f"]))
                as? ImageGetCommand)
        #expect(output.output == "--f")
        let flag = try #require(
            try await Larder.asyncParseAsRoot(Arguments.normalized(["get", "--json", "-n", "x"])) as? GetCommand)
        #expect(flag.agent.json && flag.namespace.namespace == "x")
    }

    @Test("a value that begins with a dash needs -- before it only if it could be the name of an option")
    func dashes() async throws {
        for value in ["-5", "-0.5e3", "-----BEGIN PRIVATE KEY-----\nx", "-", "-a b", "--a b", "---"] {
            let words = Arguments.normalized(["set", "a", value, "--ttl", "10m"])
            let command = try #require(try await Larder.asyncParseAsRoot(words) as? SetCommand)
            #expect(command.value == value)
            #expect(command.ttl?.duration == .seconds(600))
        }
        for value in ["-x", "--dry", "-x=1", "--eu"] {
            #expect(
                await message(["set", "a", value])?.contains("write -- before a value that begins with a dash") == true)
            let words = Arguments.normalized(["set", "a", "--", value])
            #expect(try await (Larder.asyncParseAsRoot(words) as? SetCommand)?.value == value)
        }
    }

    @Test("no error in a file of changes or in a condition quotes a value")
    func files() throws {
        for text in [
            "key=-----BEGIN\n\(Self.secret)", "a..\(Self.secret)=1", "key={\(Self.secret)", "{key: \(Self.secret)}",
            "{\(Self.secret)}", "{key: 1\(Self.secret)}", "unset a..\(Self.secret)", "key = \(Self.secret)",
        ] {
            let failure = #expect(throws: LarderCommand.Failure.self) {
                try ChangeFile.parse(Array(text.utf8), name: "f")
            }
            #expect(failure?.message.contains(Self.secret) == false, "\(failure?.message ?? "")")
        }
        for text in [
            "key==\(Self.secret)", "key= \(Self.secret)", "key<=\(Self.secret)", "key={\(Self.secret)",
            "key>\(Self.secret)",
        ] {
            let failure = #expect(throws: LarderCommand.Failure.self) { try WaitCommand.parse(text, isString: false) }
            #expect(failure?.message.contains(Self.secret) == false, "\(failure?.message ?? "")")
        }
    }
}

extension Integration {
    @Suite("larder set --value-from")
    struct ValueFromTests {
        @Test("set reads the value from a file or from standard input, without one line end at its end")
        func valueFrom() throws {
            try AgentHome.with(starting: true) { home in
                try home.write("key.pem", "-----BEGIN KEY-----\nabc\n")
                try home.larder("set", "key", "--value-from", home.directory + "/key.pem")
                #expect(try home.larder("get", "key").text == "-----BEGIN KEY-----\nabc\n")
                try home.larder("set", "limit", "--value-from", "-", input: "25\n")
                #expect(try home.larder("get", "limit", "--json").text.contains(#""value":25,"#))
                try home.larder("set", "limit", "--string", "--value-from", "-", input: "25\r\n")
                #expect(try home.larder("get", "limit", "--json").text.contains(#""value":"25","#))
                try home.larder("replace", "--value-from", "-", input: #"{"only": "@x"}"#)
                #expect(try home.larder("get", "--raw").text == "{\"only\":\"@x\"}\n")
            }
        }

        @Test("a byte order mark is skipped in files and on standard input, and is an error on the socket")
        func byteOrderMark() throws {
            try AgentHome.with { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", "\u{FEFF}{\"host\": 1}")
                try home.write("larder.json", "\u{FEFF}{}")
                let agent = try home.start()
                try home.larder("set", "a", "--value-from", "-", input: "\u{FEFF}1")
                try home.larder("push", "-", input: "\u{FEFF}{\"pushed\": 1}")
                try home.larder("apply", "-", input: "\u{FEFF}b=1")
                try home.write("template", "\u{FEFF}{{host}}{{pushed}}{{a}}{{b}}")
                let output = home.directory + "/output"
                let rendered = try home.larder("render", home.directory + "/template", output)
                #expect(rendered.status == 0, "\(rendered.log)")
                #expect(try String(contentsOfFile: output, encoding: .utf8) == "1111")
                try home.write("document.json", "\u{FEFF}{}")
                let (document, schema) = (home.directory + "/document.json", home.directory + "/document.json")
                #expect(try home.larder("validate", document, "--schema", schema).status == 0)
                let client = try agent.connect()
                try client.send("\u{FEFF}{\"id\":1,\"method\":\"agent.ping\"}")
                let reply = String(decoding: try require(client.line(), "a reply"), as: UTF8.self)
                #expect(reply.contains("-32700"), "\(reply)")
            }
        }

        @Test("without --value-from, - and @FILE are values like any other")
        func literals() throws {
            try AgentHome.with(starting: true) { home in
                for value in ["-", "@/etc/passwd"] {
                    try home.larder("set", "a", value, input: "not read")
                    #expect(try home.larder("get", "a").text == value + "\n")
                }
            }
        }

        @Test("--value-from reports a file that cannot be read or is not UTF-8, and excludes VALUE")
        func failures() throws {
            try AgentHome.with(starting: true) { home in
                let missing = try home.larder("set", "a", "--value-from", "/none")
                #expect(missing.status == 1 && missing.log.contains("cannot read /none"), "\(missing.log)")
                let invalid = try home.larder("set", "a", "--value-from", try Products.commandLine)
                #expect(invalid.status == 2 && invalid.log.contains("is not UTF-8"), "\(invalid.log)")
                let both = try home.larder("set", "a", "b", "--value-from", "-")
                #expect(both.status == 2 && both.log.contains("leave out one"), "\(both.log)")
                #expect(try home.larder("set", "--value-from", "-").status == 2)
            }
        }
    }
}
