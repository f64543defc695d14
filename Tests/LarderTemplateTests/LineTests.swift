import LarderJSON
import Testing

@Suite("Template lines")
struct LineTests {
    private let value: JSONValue = ["yes": true, "no": false, "v": "V", "list": [1, 2]]

    @Test(
        "a line that contains only a tag without output is removed",
        arguments: [
            ("a\n{{#yes}}\nb\n{{/yes}}\nc\n", "a\nb\nc\n"),
            ("a\n  {{#yes}}  \nb\n\t{{/yes}}\t\nc", "a\nb\nc"),
            ("a\r\n{{#yes}}\r\nb\r\n{{/yes}}\r\nc", "a\r\nb\r\nc"),
            ("{{#yes}}\nb\n{{/yes}}", "b\n"), ("a\n  {{#yes}}\n/\n  {{/yes}}", "a\n/\n"),
            ("a\n{{#yes}}\n/\n{{/yes}}  ", "a\n/\n"),
            ("a\n{{^no}}\nb\n{{/no}}\nc\n", "a\nb\nc\n"), ("a\n{{#no}}\nb\n{{/no}}\nc\n", "a\nc\n"),
            ("a\n  {{! note }}\nb\n", "a\nb\n"), ("a\n{{!\n  two\n  lines\n}}\nb\n", "a\nb\n"),
            ("{{! first }}\nb", "b"), ("a\n  {{! last }}", "a\n"),
            ("a\n {{=<% %>=}} \nb<%v%>", "a\nbV"), ("a\n{{%CONTENT_TYPE:HTML}}\nb", "a\nb"),
            ("{{#list}}\n{{.}}\n{{/list}}\n", "1\n2\n"),
            ("{{#yes}}\n{{#yes}}\nb\n{{/yes}}\n{{/yes}}\n", "b\n"),
            ("a\n\n{{#yes}}\n\n{{/yes}}\n\nb", "a\n\n\n\nb"),
        ])
    func alone(text: String, result: String) throws {
        #expect(try render(text, value) == result)
    }

    @Test(
        "a line that contains text, a value or more than one tag is kept",
        arguments: [
            (" | {{#yes}}\t|\t{{/yes}} | \n", " | \t|\t | \n"),
            (" {{#yes}}YES{{/yes}}\n {{#yes}}x{{/yes}}\n", " YES\n x\n"),
            ("  {{v}}  \n", "  V  \n"), ("  {{{v}}}\n", "  V\n"), ("  {{&v}}\n", "  V\n"),
            ("12{{! c }}\n", "12\n"), ("  {{! c }} 3\n", "   3\n"), ("1 {{! c }} 3", "1  3"),
            ("{{#yes}}{{/yes}}\n", "\n"), ("{{!a}}{{!b}}\nc", "\nc"), ("{{#yes}} \n {{v}}{{/yes}}\n", " V\n"),
            ("{{!\n}} {{#yes}}\nb{{/yes}}", " \nb"), ("{{v}}\n", "V\n"), ("a\r{{!c}}\n", "a\r\n"),
            ("{{! c }}\rb", "\rb"),
        ])
    func accompanied(text: String, result: String) throws {
        #expect(try render(text, value) == result)
    }

    @Test("text is copied byte for byte")
    func text() throws {
        for text in ["", "\n", "a", "}}", "ä€😀\u{0}\u{FEFF}x\r\n\ty", "{ {v} }", "{\n{v}}", "$HOME ${v} \\{"] {
            #expect(try render(text, value) == text)
        }
        #expect(try render("{ä{{v}}ä}", value) == "{äVä}")
        #expect(try render("{{{v}}}}", value) == "V}")
    }
}
