import LarderJSON
import LarderTemplate
import Testing

@Suite("Template functions")
struct FunctionTests {
    @Test(
        "functions of strings, numbers, lists and objects return the expected results",
        arguments: [
            ("uppercased(s)", "HELLO-WORLD FOO'S SSAR"), ("lowercased(s)", "hello-world foo's ßar"),
            ("capitalized(s)", "Hello-World Foo's Ssar"), ("reversed(t)", "cba"),
            ("json(s)", #""hello-World FOO's ßar""#),
            ("capitalized(w)", "A_B C.D 1Ab ǅa"), ("plusone(n)", "8"), ("minusone(n)", "6"),
            ("plusone(plusone(n))", "9"),
            ("even(n)", "false"), ("odd(n)", "true"), ("equalzero(n)", "false"), ("equalzero(minusone(one))", "true"),
            ("count(l)", "3"), ("first(l)", "3"), ("last(l)", "2"), ("reversed(l)", "[2,1,3]"),
            ("first(reversed(l))", "2"),
            ("last(reversed(l))", "3"), ("json(reversed(reversed(l)))", "[3,1,2]"), ("count(o)", "2"),
            ("sorted(o)", #"[{"key":"a","value":[1]},{"key":"b","value":null}]"#),
            ("enumerated(o)", #"[{"key":"b","value":null},{"key":"a","value":[1]}]"#),
            ("first(sorted(o))", #"{"key":"a","value":[1]}"#), ("count(enumerated(o))", "2"), ("empty(o)", "false"),
            ("empty(e)", "true"), ("empty(t)", "false"), ("empty(nope)", "true"), ("json(empty(e))", "true"),
            ("json(z)", "1.50"), ("empty(first(e))", "true"), ("json(o.b)", "null"), ("uppercased(json(l))", "[3,1,2]"),
        ])
    func results(call: String, result: String) throws {
        let value = try JSONValue(
            parsing: #"""
                {"s": "hello-World FOO's ßar", "t": "abc", "w": "a_b c.d 1ab ǆA", "n": 7, "one": 1, "z": 1.50, "l": [3, 1, 2],
                 "o": {"b": null, "a": [1]}, "e": []}
                """#)
        #expect(try render("{{\(call)}}", value) == result)
        #expect(try render("{{#\(call)}}{{/\(call)}}{{^\(call)}}{{/\(call)}}", value) == "")
    }

    @Test("functions that are called without an argument, such as index(), use the position in the innermost list")
    func positions() throws {
        let value: JSONValue = ["l": [["a": [true]], ["a": [false]], ["a": []]], "o": ["x": 1]]
        #expect(
            try render("{{#l}}{{index()}}{{plusone(index())}}{{first()}}{{last()}}{{even()}}{{odd()}} {{/l}}", value)
                == "01truefalsetruefalse 12falsefalsefalsetrue 23falsetruetruefalse ")
        #expect(try render("{{#l}}{{#o}}{{^last()}},{{/last()}}{{/o}}{{/l}}", value) == ",,")
        #expect(try render("{{#l}}{{#a}}{{index()}}{{/a}}{{^a}}{{index()}}{{/a}}{{/l}}", value) == "002")
    }

    @Test("`sorted` and `enumerated` return the key and value of each member, also in nested sections")
    func members() throws {
        let value: JSONValue = ["o": ["b": ["x": 1], "a": ["x": 2]], "x": 0, "k": "out"]
        #expect(
            try render("{{#sorted(o)}}{{key}}={{value.x}}{{#value}}{{x}}{{/value}}{{x}}{{k}} {{/sorted(o)}}", value)
                == "a=220out b=110out ")
        #expect(try render("{{#enumerated(o)}}{{#first()}}{{key}}{{/first()}}{{/enumerated(o)}}", value) == "b")
        #expect(error("{{#sorted(o)}}{{key.x}}{{/sorted(o)}}", value)?.code == .missing)
    }

    @Test(
        "an unknown function or an argument of the wrong kind is reported with its position",
        arguments: [
            ("\n {{nope(a)}}", "2:4: unknown function nope(a)"),
            ("{{#s}}\n{{count(s)}}{{/s}}", "2:3: count(s) does not apply to this value"),
            ("{{uppercased(n)}}", "1:3: uppercased(n) does not apply"),
            ("{{plusone(most)}}", "1:3: plusone(most)"),
            ("{{minusone(least)}}", "1:3: minusone"), ("{{plusone(huge)}}", "1:3: plusone"),
            ("{{sorted(l)}}", "1:3: sorted"), ("{{empty(n)}}", "1:3: empty"),
            ("{{empty(null)}}", "1:3: empty"), ("{{uppercased(empty(l))}}", "1:3: uppercased"),
            ("{{index()}}", "1:3: index() is only available in a list"),
            ("{{^last()}}{{/last()}}", "1:4: last()"),
            ("{{index(l)}}", "1:3: index(l) does not apply"),
            ("{{#l}}{{uppercased(index())}}{{/l}}", "1:9: upper"),
        ])
    func refused(text: String, beginning: String) throws {
        let value = try JSONValue(
            parsing: #"""
                {"s": "x", "n": 1, "l": [1], "null": null, "most": 9223372036854775807, "least": -9223372036854775808,
                 "huge": 9223372036854775808}
                """#)
        let error = error(text, value)
        #expect(error?.code == .function)
        #expect(error?.description.hasPrefix(beginning) == true, "\(error?.description ?? "")")
    }
}
