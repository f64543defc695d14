@_spi(LarderSchema) package import LarderJSON

/// Turns findings into violations.
struct FindingReport {
    let schema: CompiledSchema
    let root: JSONValue

    /// Sorts the findings, removes duplicates, and writes the messages of the first `maximum` ones.
    func violations(_ findings: [Finding], _ maximum: Int) -> [SchemaViolation] {
        let sorted = findings.enumerated().sorted { one, other in
            let (left, right) = (one.element, other.element)
            if left.path.count != right.path.count { return left.path.count > right.path.count }
            if left.value.identity != right.value.identity { return left.value.identity < right.value.identity }
            return one.offset < other.offset
        }
        var violations: [SchemaViolation] = []
        for (_, finding) in sorted {
            let violation = violation(finding)
            // A schema that applies to a value through several references reports the same violation several times.
            if violations.contains(violation) { continue }
            violations.append(violation)
            if violations.count == maximum { break }
        }
        return violations
    }

    private func violation(_ finding: Finding) -> SchemaViolation {
        let location = schema.program.locations[finding.node]
        let segments = finding.path.map { step in
            switch step {
            case .name(let name): name.string
            case .index(let index): String(index)
            }
        }
        var keyword = finding.keyword.rawValue
        var place = schema.text(location, keyword)
        if schema.program.nodes[finding.node].isFalse || finding.limit != nil, finding.limit != .pattern {
            // A schema that is `false` has no keywords. The violated keyword is the one that contains this schema. The
            // same keyword is reported if a limit on depth or steps stopped the validation.
            place = schema.text(location)
            keyword = Self.keyword(of: location.pointer)
        } else if finding.keyword == .patternProperties {
            place = schema.text(location)
        }
        return SchemaViolation(
            path: JSONPath(segments), schemaLocation: place, keyword: keyword,
            message: message(finding, shown(finding)),
            messageWithoutValue: message(
                finding, isName(finding) ? shown(finding) : root.value(at: finding.value).kind.article))
    }

    /// The keyword that a subschema belongs to, such as `properties` for `/properties/name`.
    private static func keyword(of pointer: String) -> String {
        let segments = pointer.split(separator: "/").map(String.init)
        guard let last = segments.last else { return "" }
        let keywordsOfMany = [
            "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions", "allOf",
            "anyOf", "oneOf", "prefixItems", "items",
        ]
        guard segments.count > 1, keywordsOfMany.contains(segments[segments.count - 2]) else { return last }
        return segments[segments.count - 2]
    }

    /// The value of a finding in a short form. Names are shown as strings.
    private func shown(_ finding: Finding) -> String {
        if isName(finding) { return JSONValue.string(finding.value.string).shown }
        return root.value(at: finding.value).shown
    }

    private func isName(_ finding: Finding) -> Bool { finding.value.rawKind > JSONValue.Kind.object.rawValue }

    /// - Parameter found: the text for the value of the finding
    private func message(_ finding: Finding, _ found: String) -> String {
        if let limit = finding.limit { return message(limit, found) }
        let node = schema.program.nodes[finding.node]
        if node.isFalse { return falseMessage(finding, found) }
        let message = ViolationMessage(schema.program, finding, found: found).text
        return isName(finding) ? "the name \(found) is not permitted: \(message)" : message
    }

    private func falseMessage(_ finding: Finding, _ found: String) -> String {
        guard case .name(let name)? = finding.path.last, !isName(finding) else {
            return "no value is permitted here, found \(found)"
        }
        return "the member \(JSONValue.string(name.string).shown) is not permitted"
    }

    private func message(_ limit: ValidationLimit, _ found: String) -> String {
        switch limit {
        case .depth: "the value or the schema is nested too deeply, so validation stopped"
        case .steps: "validation takes too many steps, so it stopped; simplify the schema"
        case .pattern:
            "matching \(found) takes too many steps, so validation stopped; simplify the pattern"
        }
    }
}

/// A place where a value does not satisfy a schema.
package struct SchemaViolation: Sendable, Equatable, CustomStringConvertible {
    /// The path of the value within the validated document.
    package let path: JSONPath
    /// The location of the keyword: a JSON Pointer after `#`. In documents other than the main one, the URI of the
    /// document precedes the `#`. For a keyword in a definition, the references that lead to the definition are not
    /// shown.
    package let schemaLocation: String
    package let keyword: String
    /// What was expected and what was found, in one line.
    package let message: String
    /// The message with the type of the value found instead of the value, for logs and for readers who must not see the
    /// value.
    package let messageWithoutValue: String

    /// The path and the message; only the message if the path is the root.
    package var description: String { path.isRoot ? message : "\(path): \(message)" }
}
