import Foundation
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Files of larder apply and texts of larder edit")
struct ChangeFileTests {
    private func parse(_ text: String) throws(Failure) -> [ConfigApply.Change] {
        try ChangeFile.parse(Array(text.utf8), name: "f")
    }

    private func message(_ text: String) -> String? {
        do throws(Failure) {
            _ = try parse(text)
            return nil
        } catch {
            return error.message
        }
    }

    @Test("lines PATH=VALUE set overrides, and lines unset PATH remove them")
    func lines() throws {
        let text = """
            # a comment

            search.limit=25
            /a.b/c={"x": "="}
            unset search.offset
            name=plain text
            """
        #expect(
            try parse(text) == [
                ConfigApply.Change(.set(25), at: JSONPath(parsing: "search.limit")),
                ConfigApply.Change(.set(["x": "="]), at: JSONPath(parsing: "/a.b/c")),
                ConfigApply.Change(.unset, at: JSONPath(parsing: "search.offset")),
                ConfigApply.Change(.set("plain text"), at: JSONPath(parsing: "name")),
            ])
    }

    @Test("a JSON5 object is parsed as paths and values, and a JSON5 array as changes with conditions")
    func documents() throws {
        #expect(
            try parse("// comment\n{'search.limit': 1.50, hosts: ['a',],}") == [
                ConfigApply.Change(.set(JSONValue(parsing: "1.50")), at: JSONPath(parsing: "search.limit")),
                ConfigApply.Change(.set(["a"]), at: JSONPath(parsing: "hosts")),
            ])
        #expect(
            try parse("[{op: 'unset', path: 'a', ifValue: 1}, {op: 'test', path: 'b', ifAbsent: true}]") == [
                ConfigApply.Change(.unset, at: JSONPath(parsing: "a"), ifValue: .equals(1)),
                ConfigApply.Change(.test, at: JSONPath(parsing: "b"), ifValue: .absent),
            ])
    }

    @Test(
        "a byte order mark at the beginning is skipped",
        arguments: ["a=1", "{a: 1}", "[{op: 'set', path: 'a', value: 1}]"])
    func byteOrderMark(text: String) throws {
        try withTemporaryDirectory { directory in
            try ("\u{FEFF}" + text).write(toFile: directory + "/f", atomically: true, encoding: .utf8)
            let changes = try ChangeFile.parse(Input.text(of: directory + "/f"), name: "f")
            #expect(changes == [ConfigApply.Change(.set(1), at: JSONPath(["a"]))])
        }
    }

    @Test("errors name the file, and the line or the index of the change")
    func errors() {
        #expect(message("a=1\nb")?.hasPrefix("f:2: this line is neither") == true)
        for text in ["n = 5", "n =5", "n= 5", "n\t=5"] {
            #expect(message(text)?.hasPrefix("f:1: there is a blank beside \"=\"; remove it") == true, "\(text)")
        }
        #expect(message("=1")?.hasPrefix("f:1: the path is empty") == true)
        #expect(message("a={\"x\"")?.hasPrefix("f:1: VALUE begins like JSON") == true)
        #expect(message("{a: }")?.hasPrefix("f:1:5: ") == true)
        #expect(message("[{op: 'set', path: 'a'}]") == "f: changes[0]: \"value\" is missing")
        #expect(message("\n# nothing\n")?.hasPrefix("f has no changes") == true)
    }

    @Test("duplicate names are errors in JSON as in JSON5, and different spellings of a letter are different names")
    func duplicates() throws {
        for text in ["{\"a\": 1,\n \"a\": 2}", "{a: 1,\n a: 2}", "{\"x\": {\"a\": 1,\n \"a\": 2}}"] {
            let error = try #require(self.message(text))
            #expect(error.hasPrefix("f:2:2: ") && error.contains("given twice, first in line 1"), "\(error)")
        }
        #expect(try parse("{\"caf\u{e9}\": 1, \"cafe\u{301}\": 2}").count == 2)
        let deep = String(repeating: "[", count: 100) + String(repeating: "]", count: 100)
        #expect(try parse("{\"a\": \(deep)}").count == 1)
    }

    @Test("only the differences of an edit become changes, and the same differences can be applied to another value")
    func edit() throws {
        let edit = DocumentEdit(
            old: ["a": ["x": 1, "y": 2], "list": [1], "gone": true],
            new: ["a": ["x": 1, "y": 3], "list": [1, 2], "n": 0],
            path: JSONPath(["p"]))
        #expect(
            edit.changes == [
                ConfigApply.Change(.set(3), at: JSONPath(["p", "a", "y"])),
                ConfigApply.Change(.set([1, 2]), at: JSONPath(["p", "list"])),
                ConfigApply.Change(.set(.null), at: JSONPath(["p", "gone"])),
                ConfigApply.Change(.set(0), at: JSONPath(["p", "n"])),
            ])
        #expect(
            edit.applied(to: ["a": ["x": 9, "y": 2], "gone": true, "other": 1])
                == ["a": ["x": 9, "y": 3], "other": 1, "list": [1, 2], "n": 0])
    }

    @Test("notes above the value in the edited text are not parsed, and new notes replace the previous ones")
    func notes() throws {
        let text = EditText.text(["a": 1], notes: ["one", "two\nlines"])
        #expect(text == "// one\n// two\\nlines\n{\n  \"a\": 1\n}\n")
        #expect(try EditText.value(of: text, noteLines: 3) == ["a": 1])
        #expect(EditText.replacingNotes(of: text, by: ["new"]) == "// new\n{\n  \"a\": 1\n}\n")
        #expect(try EditText.value(of: "// only\n// notes\n", noteLines: 3) == nil)
        let failure = #expect(throws: Failure.self) {
            try EditText.value(of: "// one\n// two\n{\n  a: }", noteLines: 3)
        }
        #expect(failure?.message.hasPrefix("the text:5:6: ") == true, "\(failure?.message ?? "")")
    }
}
