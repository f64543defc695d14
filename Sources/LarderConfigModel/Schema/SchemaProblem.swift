package import LarderJSON

/// A value in a configuration that violates the schema of its namespace.
package struct SchemaProblem: Sendable, Hashable {
    /// The path of the value.
    package var path: JSONPath
    /// The location of the violated keyword in the schema: a JSON Pointer after `#`. In a document that the schema
    /// refers to, the URI of that document precedes it.
    package var schemaLocation: String
    /// The violated keyword, such as `type`.
    package var keyword: String
    /// What was expected and the type of the value found, in one line. It has the value itself only in the reply to the
    /// change that contained the value.
    package var message: String
    /// The message with the value found; nil if the value is secret, or if ``message`` has the value already.
    package var messageWithValue: String?
    /// The highest layer with a value at the path; nil if no layer has one.
    package var layer: ConfigLayer?
    /// The URL, directory or file that the value comes from; nil for an override, for a pushed document, and if
    /// unknown.
    package var location: String?
    /// The line of the value in the file ``location``, from 1; nil if the value is not from a file, or if unknown.
    package var line: Int?

    package init(
        path: JSONPath, schemaLocation: String, keyword: String, message: String, messageWithValue: String? = nil,
        layer: ConfigLayer?, location: String? = nil, line: Int? = nil
    ) {
        self.path = path
        self.schemaLocation = schemaLocation
        self.keyword = keyword
        self.message = message
        self.messageWithValue = messageWithValue
        self.layer = layer
        self.location = location
        self.line = line
    }

    /// The violation as it is logged and retained.
    package var withoutValue: SchemaProblem {
        var problem = self
        problem.messageWithValue = nil
        return problem
    }

    /// The path, the message and the source, in one line.
    package var text: String {
        let place = path.isRoot ? "" : "\(path): "
        let source = [
            layer.map { "layer \($0)" }, location.map { location in line.map { "\(location):\($0)" } ?? location },
        ]
        .compactMap(\.self)
        return place + message + (source.isEmpty ? "" : " (\(source.joined(separator: ", ")))")
    }
}

extension ConfigError {
    /// Creates a `schemaViolation`.
    /// - Parameter problems: at least one
    package init(_ problems: [SchemaProblem]) {
        let more = problems.count - 1
        self.init(
            .schemaViolation,
            "the configuration would violate its schema: \(problems[0].text)"
                + (more == 0 ? "" : " and \(more) more \(more == 1 ? "violation" : "violations")"),
            schemaProblems: problems)
    }
}
