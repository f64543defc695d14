import LarderJSON
import LarderTemplate
import Testing

@Suite("Template syntax errors")
struct SyntaxErrorTests {
    @Test(
        "a syntax error is reported with its line and column",
        arguments: [
            ("a {{b", "1:3: a tag is not closed"), ("ä\r\n€€{{b}", "2:3: a tag is not closed"),
            ("{{", "1:1: a tag is not closed"),
            ("{{!\n", "1:1: a tag is not closed"), ("{{{b}}", "1:1: a tag is not closed"),
            ("{{%a", "1:1: a tag is not closed"),
            ("{{b c}}", "1:5: a tag is malformed"), ("{{{b}} }", "1:8: a tag is malformed"),
            ("{{}}", "1:3: this tag has no name"), ("{{# }}", "1:5: this tag has no name"),
            ("{{a..b}}", "1:3: a name next to a dot is empty"), ("{{..}}", "1:3: a name"), ("{{a.}}", "1:3: a name"),
            ("{{a.?}}", "1:3: a name"), ("{{json(a}}", "1:3: the parentheses"), ("{{json a)}}", "1:8: a tag"),
            ("{{json(a))}}", "1:3: the parentheses"), ("{{(a)}}", "1:3: the parentheses"),
            ("{{json(a)b}}", "1:3: the paren"),
            ("{{json()}}", "1:3: the parentheses"), ("{{json(count())}}", "1:3: the parentheses"),
            ("{{a)}}", "1:3: the parentheses"),
            ("{{json(a)(b)}}", "1:3: the parentheses"),
            ("{{#a}}{{#b}}{{/a}}", "1:16: the section of line 1 is still open; close it first with {{/b}}"),
            ("x{{/a}}", "1:5: this closes a section, but none is open"),
            ("{{#a}}\n{{/b}}", "2:4: the section of line 1 is still open"),
            ("{{#json(a)}}{{/a}}", "1:16: the section of line 1 is still open"),
            (
                "\n{{#a}}\n{{#b}}{{/b}}\n",
                "4:1: the template ends within a section; close the section of line 2 with {{/a}}"
            ),
            ("{{> a}}", "1:1: one template cannot include"), ("b\n {{ >a}}", "2:2: one template cannot include"),
            ("{{=<% %>=}}<%> a%>", "1:12: one template cannot include"),
            ("{{<a}}{{/a}}", "1:1: one template cannot inherit"),
            ("{{$a}}{{/a}}", "1:1: one template cannot inherit"), ("{{=a=}}", "1:4: delimiters"),
            ("{{==}}", "1:4: delimiters"),
            ("{{=a b}}", "1:4: delimiters"), ("{{=a b c=}}", "1:4: delimiters"), ("{{=a= b=}}", "1:4: delimiters"),
            ("{{=aaaaaaaaaaaaaaaaa b=}}", "1:4: delimiters"), ("{{%X:Y}}", "1:4: only"),
            ("{{%CONTENT_TYPE:XML}}", "1:4: only"),
        ])
    func positions(text: String, beginning: String) {
        let error = error(text)
        #expect(error?.description.hasPrefix(beginning) == true, "\(error?.description ?? "")")
        #expect(error?.code == .syntax)
    }

    @Test("the content of a comment is ignored")
    func comments() throws {
        #expect(try render("a{{! {{> b {{#c {{/d ( }}e{{!}}f{{!}}}}") == "aef}}")
    }

    @Test("sections may be nested up to the maximum depth")
    func depth() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "{{#a}}", count: depth) + "{{b}}" + String(repeating: "{{/a}}", count: depth)
        }
        #expect(try render(nested(Template.maxDepth), ["a": ["c": 1], "b": "x"]) == "x")
        #expect(
            error(nested(Template.maxDepth + 1))?.description
                == "1:604: sections are nested deeper than 100 levels")
        #expect(error(String(repeating: "{{#a}}", count: 100_000))?.code == .syntax)
    }

    @Test("long templates, names and lists are rendered")
    func length() throws {
        let many = 20_000
        #expect(try render(String(repeating: "{{a}}{{! c }} ", count: many), ["a": 1]).count == many * 2)
        #expect(try render(String(repeating: "{ ", count: many)).count == many * 2)
        let names = String(repeating: "a.", count: many) + "a?"
        #expect(try render("{{\(names)}}", ["a": ["b": 1]]) == "")
        #expect(error("{{\(String(repeating: "json(", count: many))a}}")?.code == .syntax)
        let calls = String(repeating: "reversed(", count: many) + "a" + String(repeating: ")", count: many)
        #expect(try render("{{\(calls)}}", ["a": "xy"]) == "xy")
        let list = JSONValue.array((0..<many).map { .int($0) })
        #expect(try render("{{#a}}{{#last()}}{{.}}{{/last()}}{{/a}}", ["a": list]) == "\(many - 1)")
        #expect(error("{{#a}}{{.x}}{{/a}}", ["a": list])?.text.hasSuffix("a.19.x and others") == true)
    }

    @Test("an error contains at most 60 characters of a name")
    func longNames() {
        let name = String(repeating: "n", count: 100_000)
        let shown = "\(name.prefix(60))…"
        #expect(error("{{\(name)}}")?.text == "no value at \(shown)")
        #expect(error("{{\(name.prefix(60))}}")?.text == "no value at \(name.prefix(60))")
        #expect(error("{{\(name)(a)}}")?.text == "unknown function \(shown)")
        #expect(error("{{#\(name)}}")?.text.hasSuffix("close the section of line 1 with {{/\(shown)}}") == true)
        #expect(error("{{#\(name)}}{{/b}}")?.text.hasSuffix("close it first with {{/\(shown)}}") == true)
        let (opening, closing) = (String(repeating: "count(", count: 20), String(repeating: ")", count: 20))
        let call = "\(opening.prefix(60))…"
        #expect(error("{{\(opening)a\(closing)}}", ["a": 1])?.text == "\(call) does not apply to this value")
        #expect(error("{{\(opening)index()\(closing)}}")?.text == "\(call) is only available in a list")
        // One character with many code points.
        let marks = "a" + String(repeating: "\u{301}", count: 1000)
        #expect(error("{{\(marks)}}")?.text.unicodeScalars.count == "no value at ".count + 61)
    }

    @Test("random templates do not crash the parser, and error positions are within the text")
    func randomTemplates() {
        var generator = SystemRandomNumberGenerator()
        let pieces = [
            "{{", "}}", "{", "}", "#", "/", "^", "!", "=", "%", "&", ">", "a", "b?", ".", "(", ")", " ", "\n", "\r\n",
            "json(",
            "{{#a}}", "{{/a}}", "{{=| |=}}", "|", "ä", "{{a}}", "first()",
        ]
        for _ in 0..<3000 {
            let count = Int.random(in: 1...30, using: &generator)
            let text = (0..<count).map { _ in pieces.randomElement(using: &generator)! }.joined()
            do {
                _ = try render(text, ["a": [["b": 1], "x"], "b": true])
            } catch {
                guard let place = error.place else { continue }
                let lines = text.utf8.split(separator: 10, omittingEmptySubsequences: false)
                #expect(place.line <= lines.count && place.column <= lines[place.line - 1].count + 1, "\(text)")
            }
        }
    }
}
