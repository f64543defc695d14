import LarderClient
import Mustache

/// A template for `larder render`, in Mustache as swift-mustache reads it, without escaping: what it makes are
/// configuration files, not web pages.
struct ConfigTemplate {
    /// What errors call it.
    private let name: String
    private let template: MustacheTemplate

    /// A line before the template's first that turns the library's escaping for HTML off.
    private static let preamble = "{{%CONTENT_TYPE:TEXT}}\n"

    /// Reads a template.
    /// - Throws: ``Failure`` with the line and column of what is wrong.
    init(_ text: String, name: String) throws(Failure) {
        self.name = name
        if let partial = Self.partial(in: text) {
            throw Failure(.usage, "\(name):\(partial): one template cannot include another; put all of it in one file")
        }
        do {
            template = try MustacheTemplate(string: Self.preamble + text)
        } catch let error as MustacheTemplate.ParserError {
            let place = "\(error.context.lineNumber - 1):\(error.context.columnNumber)"
            throw Failure(.usage, "\(name):\(place): \(Self.reason(error.error))")
        } catch {
            throw Failure(.usage, "\(name): \(error)")
        }
    }

    /// Renders a configuration.
    /// - Throws: ``Failure`` that names what the template asks for and is not there.
    func render(_ value: JSONValue) throws(Failure) -> String {
        let problems = TemplateProblems()
        let text = template.render(TemplateValue(root: value, problems: problems))
        if !problems.functions.isEmpty {
            throw Failure(
                .usage,
                "\(name): there is no \(problems.functions.joined(separator: ", ")) for what is there; "
                    + "larder render --help lists the functions")
        }
        if !problems.missing.isEmpty {
            throw Failure(
                .notFound,
                "\(name): nothing is at \(problems.missing.joined(separator: ", ")); set it, correct the "
                    + "template, or mark what may be missing with a question mark, as in {{name?}}")
        }
        return text
    }

    /// The line of a tag that would include another template. The library renders those it does not know as nothing.
    private static func partial(in text: String) -> Int? {
        var rest = text[...]
        while let tag = rest.firstRange(of: "{{") {
            rest = rest[tag.upperBound...]
            // Behind this other delimiters count.
            if rest.hasPrefix("=") { return nil }
            if let first = rest.first(where: { $0 != " " }), first == ">" || first == "<" {
                return text[..<tag.lowerBound].count(where: \.isNewline) + 1
            }
        }
        return nil
    }

    private static func reason(_ error: any Error) -> String {
        switch error as? MustacheTemplate.Error {
        case .sectionCloseNameIncorrect: "this closes a section that is not the last one opened"
        case .unfinishedName: "a tag is not what it should be: {{name}}, {{#name}}, {{/name}}, {{function(name)}}"
        case .expectedSectionEnd: "the template ends within a section; close it with {{/name}}"
        case .invalidSetDelimiter: "delimiters are changed with {{=<% %>=}}"
        case .invalidConfigVariableSyntax, .unrecognisedConfigVariable:
            "the library knows {{%CONTENT_TYPE:HTML}} and {{%CONTENT_TYPE:TEXT}} only"
        case .transformAppliedToInheritanceSection, .illegalTokenInsideInheritSection, .textInsideInheritSection:
            "one template cannot inherit from another"
        case nil: "a tag is not closed"
        @unknown default: "\(error)"
        }
    }
}
