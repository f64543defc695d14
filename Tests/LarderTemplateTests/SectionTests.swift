import LarderJSON
import LarderTemplate
import Testing

@Suite("Template sections")
struct SectionTests {
    @Test(
        "if a value is false, null, missing or an empty list, only an inverted section of that name is rendered",
        arguments: [
            ("false", false), ("null", false), ("[]", false), ("0", true), (#""""#, true), ("{}", true),
            ("[null]", true),
        ])
    func truth(json: String, isTrue: Bool) throws {
        let value = try JSONValue(parsing: #"{"a":\#(json)}"#)
        #expect(try render("{{#a}}yes{{/a}}{{^a}}no{{/a}}", value) == (isTrue ? "yes" : "no"))
        #expect(try render("{{#b}}yes{{/b}}{{^b}}no{{/b}}", value) == "no")
    }

    @Test("a section over a list renders each element as the innermost value")
    func lists() throws {
        let value: JSONValue = ["list": [1, "two", [3, 4], ["n": 5]], "o": ["n": "o"], "n": "root"]
        #expect(try render("{{#list}}<{{.}}>{{/list}}", value) == #"<1><two><[3,4]><{"n":5}>"#)
        #expect(try render("{{#list}}{{n}} {{/list}}", value) == "root root root 5 ")
        #expect(try render("{{#list}}{{#o}}{{n}}{{/o}}{{/list}}", value) == "oooo")
        let nested: JSONValue = [[1, 2], [3]]
        #expect(try render("{{#.}}({{#.}}{{.}}{{/.}}){{/.}}", nested) == "(12)(3)")
    }

    @Test("an inverted section, or a section over a Boolean function, does not change the innermost value")
    func noScope() throws {
        let value: JSONValue = ["a": ["b": [], "n": 1]]
        #expect(try render("{{#a}}{{^b}}{{n}}{{/b}}{{#empty(b)}}{{n}}{{/empty(b)}}{{/a}}", value) == "11")
    }

    @Test("in a section over true, a number or a string, that value is the innermost value")
    func scalars() throws {
        #expect(try render("{{#a}}{{.}}{{/a}} {{#b}}{{.}}{{/b}}", ["a": true, "b": "x"]) == "true x")
    }

    @Test("the first name of a path is looked up from the innermost value outwards, the rest in the value found")
    func names() throws {
        let value: JSONValue = ["a": ["b": ["x": 1]], "b": ["c": 2], "c": 3]
        #expect(try render("{{#a}}{{b.x}}{{c}}{{/a}}", value) == "13")
        #expect(error("{{#a}}{{b.c}}{{/a}}", value)?.text == "no value at a.b.c")
        #expect(try render("{{#a}}{{#b}}{{x}}{{/b}}{{/a}}{{b.c}}", value) == "12")
        #expect(error("{{#a}}{{.c}}{{/a}}", value)?.text == "no value at a.c")
        #expect(try render("{{#a}}{{.b.x}}{{.c?}}{{/a}}{{.c}}", value) == "13")
    }

    @Test("a name is the text between the delimiters without surrounding white space")
    func spelling() throws {
        let value: JSONValue = ["größe": 1, "a-b": 2, "c/d": 3, "e:f": ["$": 4], "x?": 5]
        #expect(try render("{{größe}}{{ a-b }}{{\n\tc/d\r\n}}{{e:f.$}}{{x?}}{{x??}}", value) == "123455")
        #expect(try render("{{# a-b }}{{ & . }}{{/ a-b }}{{ # a-b}}{{{ . }}}{{/a-b}}", value) == "22")
    }

    @Test("a name that is looked up in a list must be an index without a leading zero")
    func indexes() throws {
        let value: JSONValue = ["l": ["x", ["y": "z"]]]
        #expect(try render("{{l.0}}{{l.1.y}}{{l.2?}}{{l.00?}}{{l.-1?}}{{#l}}{{/l}}", value) == "xz")
        #expect(error("{{l.2}} {{l.00}} {{l.y}}", value)?.text == "no value at l.2, l.00, l.y")
    }

    @Test("the error for a missing value has its complete path")
    func paths() {
        let value: JSONValue = [
            "s": [["t": ["k": 1]], ["t": ["k": 2]]], "o": ["p": ["q": 1], "r": 2], "a.b": ["c": 1],
        ]
        #expect(error("{{#s}}{{t.n}}{{/s}}", value)?.text == "no value at s.0.t.n, s.1.t.n")
        #expect(error("{{#s}}{{#t}}{{n}}{{/t}}{{/s}}", value)?.text == "no value at n")
        #expect(error("{{#s}}{{#t}}{{.n}}{{/t}}{{/s}}", value)?.text == "no value at s.0.t.n, s.1.t.n")
        #expect(error("{{#reversed(s)}}{{t.n}}{{/reversed(s)}}", value)?.text == "no value at s.1.t.n, s.0.t.n")
        #expect(error("{{#sorted(o)}}{{value.x}}{{/sorted(o)}}", value)?.text == "no value at o.p.x, o.r.x")
        #expect(error("{{first(o.n)}}{{json(o.n.m)}}", value)?.text == "no value at o.n, o.n.m")
    }

    @Test("the error for missing values lists at most 20 names")
    func manyMissing() {
        let text = (1...1000).map { "{{n\($0)}}{{n\($0)}}" }.joined()
        #expect(error(text)?.text.hasSuffix("n19, n20 and others") == true)
        #expect(error((1...20).map { "{{n\($0)}}" }.joined())?.text.hasSuffix("n19, n20") == true)
        #expect(error(text)?.code == .missing)
    }

    @Test("a change of delimiters or escaping in a section applies until the end of the section")
    func scopedSettings() throws {
        let value: JSONValue = ["a": true, "v": "<&>\"'"]
        #expect(try render("{{=<% %>=}}<%v%>{{v}}<%={{ }}=%>{{v}}", value) == "<&>\"'{{v}}<&>\"'")
        #expect(try render("{{#a}}{{=| |=}}|v||/a|{{v}}|", value) == "<&>\"'<&>\"'|")
        #expect(
            try render("{{#a}}{{% CONTENT_TYPE : HTML }}{{v}}{{&v}}{{/a}}{{v}}", value)
                == "&lt;&amp;&gt;&quot;&#39;<&>\"'<&>\"'")
        #expect(
            try render("{{%CONTENT_TYPE:HTML}}{{#a}}{{json(v)}}{{{v}}}{{%CONTENT_TYPE:TEXT}}{{v}}{{/a}}", value)
                == #"&quot;&lt;&amp;&gt;\&quot;&#39;&quot;<&>"'<&>"'"#)
        #expect(try render("{{=@ @=}}(@{v}@@&v@)@! {{ @", value) == "(<&>\"'<&>\"')")
        #expect(try render("{{= <<< >>> =}}<<v<<<v>>>", ["v": 1]) == "<<v1")
    }
}
