import LarderJSON
import Testing

@testable import LarderCommand

@Suite("Templates of larder render")
struct ConfigTemplateTests {
    private let value: JSONValue = [
        "search": [
            "limit": 20, "name": "a <b> & \"c\"", "hosts": ["x", "y"], "tls": ["key": "k"], "off": false, "on": true,
            "none": [], "empty": [:], "servers": [["host": "s1", "port": 1], ["host": "s2"]],
        ],
        "limit": 99,
    ]

    private func render(_ text: String) throws(Failure) -> String {
        try ConfigTemplate.render(text, name: "t", value)
    }

    private func failure(_ text: String) -> Failure? { #expect(throws: Failure.self) { try render(text) } }

    @Test("scalars are rendered without quotes, objects and arrays as JSON, and escaping is off by default")
    func values() throws {
        #expect(try render("limit={{search.limit}} {{ limit }}\n") == "limit=20 99\n")
        #expect(try render("{{search.name}} {{{search.name}}} {{&search.name}}").hasPrefix("a <b> & \"c\" a <b> &"))
        #expect(try render("{{search.hosts}} {{search.tls}} {{search.on}}") == #"["x","y"] {"key":"k"} true"#)
        #expect(try render("{{search.hosts.1}}") == "y")
        #expect(try render("{{json(search.name)}} {{json(limit)}}") == #""a <b> & \"c\"" 99"#)
        #expect(try render("{{%CONTENT_TYPE:HTML}}{{search.name}}") == "a &lt;b&gt; &amp; &quot;c&quot;")
        #expect(try render("{{=<% %>=}}{{<% limit %>}}") == "{{99}}")
    }

    @Test("sections are rendered for elements, objects and true, inverted sections for false, empty and missing values")
    func sections() throws {
        #expect(try render("{{#search.hosts}}{{.}}{{^last()}},{{/last()}}{{/search.hosts}}") == "x,y")
        #expect(
            try render("{{#search}}{{tls.key}} {{limit}}{{#tls}} {{key}} {{name}}{{/tls}}{{/search}}").hasPrefix(
                "k 20 k"))
        #expect(try render("{{#search.on}}yes {{limit}}{{/search.on}}") == "yes 99")
        for name in ["search.off", "search.none", "search.nope", "nope", "nope.nope"] {
            #expect(try render("{{#\(name)}}yes{{/\(name)}}{{^\(name)}}no{{/\(name)}}") == "no", "\(name)")
        }
        #expect(
            try render("{{#search.empty}}yes{{/search.empty}}{{#empty(search.empty)}}!{{/empty(search.empty)}}")
                == "yes!")
        #expect(try render("a\n{{#search.on}}\nb\n{{/search.on}}\nc\n") == "a\nb\nc\n")
        #expect(try render("{{#search.on}}\nfirst line\n{{/search.on}}\n") == "first line\n")
    }

    @Test("functions transform values and sections, and an unknown function is an error")
    func functions() throws {
        #expect(
            try render("{{#sorted(search.tls)}}{{key}}={{value}} {{/sorted(search.tls)}}") == "key=k ")
        #expect(
            try render("{{#enumerated(search)}}{{key}} {{/enumerated(search)}}")
                == "limit name hosts tls off on none empty servers ")
        #expect(try render("{{count(search.hosts)}} {{first(search.hosts)}} {{last(search.hosts)}}") == "2 x y")
        #expect(try render("{{#reversed(search.hosts)}}{{.}}{{/reversed(search.hosts)}}") == "yx")
        #expect(try render("{{uppercased(first(search.hosts))}}") == "X")
        #expect(try render("{{#empty(nope)}}none{{/empty(nope)}}") == "none")
        #expect(failure("{{nope(search.limit)}}")?.message.contains("unknown function nope(search.limit)") == true)
    }

    @Test("missing values cause a single error that names each path once")
    func missing() {
        let text = "{{search.limt}} {{nope}} {{nope}} {{a.b.c}} {{search.limit.x}} {{search.hosts.7}} {{json(q)}}"
        let failure = failure(text)
        #expect(failure?.status == .notFound)
        #expect(
            failure?.message.hasPrefix(
                "t: no value at search.limt, nope, a.b.c, search.limit.x, search.hosts.7, q; ") == true)
    }

    @Test("a name in a section is also looked up in the enclosing sections, and is missing only if none has it")
    func scopes() throws {
        #expect(try render("{{#search.servers}}{{host}}:{{port?}}:{{limit}} {{/search.servers}}") == "s1:1:99 s2::99 ")
        #expect(
            failure("{{#search.servers}}{{host}}:{{port}} {{/search.servers}}")?.message.contains("at port;") == true)
        #expect(
            failure("{{#search.on}}{{value}}{{path}}{{place}}{{/search.on}}")?.message.contains("value, path, place")
                == true)
        #expect(failure("{{#search}}{{tls.nope}}{{/search}}")?.message.contains("at search.tls.nope;") == true)
    }

    @Test("a missing value is not an error if its name in the template ends with a question mark")
    func optional() throws {
        #expect(try render("<{{nope?}}{{search.nope?}}{{nope?.x}}{{nope.x?}}{{limit?}}>") == "<99>")
        #expect(try render("{{#search}}{{limit?}}{{nope?}}{{tls.nope?}}{{/search}}") == "20")
        #expect(failure("{{nope.x}} {{nope?}}")?.message.contains("at nope.x;") == true)
    }

    @Test(
        "a syntax error in the template is reported with line and column",
        arguments: [
            ("a\n{{#b}}\n{{/c}}\n", "t:3:4: the section of line 2"), ("{{#b}}\n", "t:2:1: the template ends"),
            ("a\n  {{b", "t:2:"), ("{{b c}}", "t:1:"), ("x\n{{ >y}}", "t:2:1: one template"), ("{{%X:Y}}", "t:1:"),
        ])
    func syntaxErrors(text: String, beginning: String) {
        let failure = failure(text)
        #expect(failure?.status == .usage)
        #expect(failure?.message.hasPrefix(beginning) == true, "\(failure?.message ?? "")")
    }
}
