import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Configuration as environment variables")
struct EnvironmentMappingTests {
    private func variables(
        _ value: JSONValue, at path: [String] = [], prefix: String = ""
    ) throws -> EnvironmentVariables {
        try EnvironmentMapping(prefix: prefix).variables(of: value, at: JSONPath(path))
    }

    private func refusal(_ value: JSONValue, prefix: String = "") -> String? {
        let failure = #expect(throws: Failure.self) { try variables(value, prefix: prefix) }
        return failure?.message
    }

    @Test("names are the upper-case path, scalars have no quotes, arrays are JSON, and empty objects are omitted")
    func mapping() throws {
        let found = try variables(
            JSONValue(
                parsing:
                    #"{"search":{"limit":20,"Hosts":["a",null],"e mail-é":"x y"},"on":true,"n":0.10,"none":{},"9":1}"#
            ))
        #expect(found.names == ["SEARCH_LIMIT", "SEARCH_HOSTS", "SEARCH_E_MAIL__", "ON", "N", "_9"])
        #expect(found.values["SEARCH_LIMIT"] == "20")
        #expect(found.values["SEARCH_HOSTS"] == #"["a",null]"#)
        #expect(found.values["SEARCH_E_MAIL__"] == "x y")
        #expect(found.values["ON"] == "true")
        #expect(found.values["N"] == "0.10")
        #expect(try variables(["a": ["9": ""]], prefix: "P_").values == ["P_A_9": ""])
        #expect(try variables(["": 1, "path": ["x": 2]]).values == ["_": "1", "PATH_X": "2"])
        #expect(try variables(["path": 1], prefix: "P_").names == ["P_PATH"])
    }

    @Test("two paths with the same variable name are refused with an error that names both")
    func collisions() {
        let message = refusal(["a": ["b": 1], "a_b": 2])
        #expect(message?.contains(#""a.b" and "a_b" would both become the variable A_B"#) == true)
        #expect(refusal(["limit": 1, "Limit": 2])?.contains("LIMIT") == true)
    }

    @Test("a value with a NUL, a reserved name and a non-object are refused, and the error does not contain the value")
    func refusals() throws {
        let message = refusal(["db": ["password": "secret\u{0}"]])
        #expect(message?.contains("\"db.password\"") == true && message?.contains("secret") == false)
        for (value, name): (JSONValue, String) in [
            (["ld": ["preload": "/x"]], "LD_PRELOAD"), (["path": "/x"], "PATH"), (["bash-env": "/x"], "BASH_ENV"),
            (["bash": ["func": ["ls%%": "() { x; }"]]], "BASH_FUNC_LS__"),
            (["node": ["options": "-r /x"]], "NODE_OPTIONS"),
            (["": ["java": ["options": "-x"]]], "_JAVA_OPTIONS"), (["env": "/x"], "ENV"),
        ] {
            #expect(refusal(value)?.contains("would become the variable \(name)") == true)
        }
        #expect(throws: Failure.self) { try variables([1], at: ["list"]) }
        let failure = #expect(throws: Failure.self) { try variables(20, at: ["search", "limit"]) }
        #expect(failure?.message.contains("\"search.limit\" has the type number") == true)
    }

    @Test("a value that changes only in its Unicode normalization is another value")
    func normalization() throws {
        #expect(try variables(["a": "caf\u{e9}"]) != variables(["a": "cafe\u{301}"]))
        #expect(try variables(["a": "caf\u{e9}"]) == variables(["a": "caf\u{e9}"]))
    }

    @Test("two sets of variables are equal regardless of their order")
    func equality() throws {
        #expect(try variables(["a": 1, "b": 2]) == variables(["b": 2, "a": 1]))
        #expect(try variables(["a": 1]) != variables(["a": 2]))
        #expect(try variables(["a": 1]) != variables(["a": 1, "b": ""]))
    }

    @Test("a prefix of the names must be a valid variable name")
    func prefixes() {
        for text in ["A", "APP_", "_x9"] { #expect(EnvironmentMapping.isPrefix(text)) }
        for text in ["", "9", "A-", "é", "A="] { #expect(!EnvironmentMapping.isPrefix(text)) }
    }

    @Test("a shell reads the values in a file of variables unchanged, whatever they contain")
    func file() throws {
        let values = ["plain-1.2", "", "it's", "a \"b\" $c `d` \\e\nf", "tab\tbang!", "é#;"]
        let value = JSONValue.object(values.enumerated().map { ("v\($0.offset)", .string($0.element)) })
        let text = try variables(value).fileText
        #expect(text.hasPrefix("V0=plain-1.2\nV1=\nV2=\"it's\"\n"))
        let script = text + (0..<values.count).map { "printf '%s\\0' \"$V\($0)\"\n" }.joined()
        let command = try Command.run("/bin/sh", ["-s"], input: script)
        #expect(command.text == values.map { $0 + "\0" }.joined())
    }
}
