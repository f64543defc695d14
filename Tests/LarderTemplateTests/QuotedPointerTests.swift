import LarderJSON
import LarderTemplate
import Testing

@Suite("Quoted JSON Pointers in templates")
struct QuotedPointerTests {
    private static let value: JSONValue = [
        "updog": ["kerberos.principal": "p", "a b": ["x", "y"], "q\"}}(": 1, "slash/~": 2, "why?": 3, "": 4],
        "list": [["a.b": "one"], ["a.b": "two"]], "a\"b": "old", "n.m": "root",
    ]

    @Test(
        "a quoted JSON Pointer names members with dots, spaces, parentheses, quotation marks and delimiters",
        arguments: [
            (#"{{"/updog/kerberos.principal"}}"#, "p"), (#"{{ "/updog/a b/1" }}"#, "y"),
            (#"{{"/updog/q\"}}("}}"#, "1"), (#"{{"/updog/slash~1~0"}}"#, "2"), (#"{{"/updog/why?"}}"#, "3"),
            (#"{{"/updog/"}}"#, "4"), (#"{{{"/n.m"}}}"#, "root"), (#"{{"/\u006e.m"}}"#, "root"),
            (#"{{=<% %>=}}<%"/updog/a b/0"%>"#, "x"),
        ])
    func names(text: String, expected: String) throws {
        #expect(try render(text, Self.value) == expected)
    }

    @Test("a quoted JSON Pointer works in sections and functions, and after a dot")
    func sections() throws {
        #expect(try render(#"{{#"/updog/a b"}}<{{.}}>{{/"/updog/a b"}}"#, Self.value) == "<x><y>")
        #expect(try render(#"{{^"/updog/a c"}}none{{/"/updog/a c"}}"#, Self.value) == "none")
        #expect(try render(#"{{count("/updog/a b")}}{{uppercased(json("/updog/a b"))}}"#, Self.value) == #"2["X","Y"]"#)
        #expect(
            try render(#"{{#list}}{{"/a.b"}}{{"/n.m"}}{{."/a.b"}}{{json(."/a.b")}} {{/list}}"#, Self.value)
                == #"onerootone"one" tworoottwo"two" "#)
        #expect(try render(#"{{#list}}{{."/n.m"?}}{{/list}}"#, Self.value) == "")
    }

    @Test("a question mark after the quotation marks makes the value optional")
    func optional() throws {
        #expect(try render(#"<{{"/no.ne/x y"?}}{{json("/no.ne"?)}}>"#, Self.value) == "<>")
        #expect(error(#"{{"/no.ne/x y"}}"#, Self.value)?.description == "no value at /no.ne/x y")
        #expect(error(#"{{"/updog/none?"}}"#, Self.value)?.code == .missing)
    }

    @Test("a quotation mark inside a name is part of the name")
    func plainNames() throws {
        #expect(try render(#"{{a"b}}"#, Self.value) == "old")
    }

    @Test(
        "a quoted name that is not a JSON Pointer is a syntax error with its place",
        arguments: [
            (#"{{"a b"}}"#, "1:3: a name in quotation marks is not"), (#"{{""}}"#, "1:3: a name in quotation"),
            (#"{{"/~2"}}"#, "1:3: a name in quotation"), (#"{{"/a"x}}"#, "1:3: a name in quotation"),
            (#"{{"/a\x"}}"#, "1:3: a name in quotation"), (#"{{"/a".b}}"#, "1:3: a name in quotation"),
            (#"{{"/a"/"b"}}"#, "1:3: a name in quotation"), (#"x{{"/a}}"#, "1:2: a tag is not closed"),
            (#"{{"/a\"}}"#, "1:1: a tag is not closed"), (#"{{"}}"#, "1:1: a tag is not closed"),
            (#"{{json("/a"}}"#, "1:3: the parentheses"), (#"{{"/a")}}"#, "1:3: the parentheses"),
            (#"{{json("/a")?}}"#, "1:3: the parentheses"), (#"{{#"/a b"}}{{/"/a c"}}"#, "1:15: the section of line 1"),
        ])
    func syntaxErrors(text: String, beginning: String) {
        let error = error(text, Self.value)
        #expect(error?.description.hasPrefix(beginning) == true, "\(error?.description ?? "")")
        #expect(error?.code == .syntax)
    }
}
