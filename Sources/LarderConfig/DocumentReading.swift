import JSON
import LarderUpstream

/// How the configuration is found in what an origin answered.
struct DocumentReading: Sendable {
    /// The origin, for messages.
    var location: String
    /// Where in the answer the document is; nil where it is the answer.
    var answerPath: JSONPath?
    /// Where the document says its own version; nil where it does not.
    var versionPath: JSONPath?
    /// What an origin may have learnt of us and must not be quoted with.
    var secrets: [String] = []

    /// Checks that an answer's body holds a configuration. Large documents are parsed away from every actor.
    /// - Throws: `rejected` with what is wrong with the body; `upstreamFailed` where the body says that the origin failed.
    @concurrent
    func document(in body: [UInt8], validator: Validator?) async throws(ConfigError) -> SourceDocument {
        let answer: JSONValue
        do {
            answer = try JSONValue(parsing: body)
        } catch {
            throw ConfigError(.rejected, "\(location) did not answer with JSON: \(error)")
        }
        guard let answerPath else { return try document(answer, "answered with", validator) }
        // A part of a configuration is none, so that it does not matter whether there is data beside the errors.
        if let errors = GraphQLErrors(in: answer) {
            throw ConfigError(.upstreamFailed, "\(location) answered with \(errors.text(without: secrets))")
        }
        guard let value = answer.value(at: answerPath) else {
            throw ConfigError(.rejected, "the answer of \(location) has nothing at \(answerPath); correct answerPath")
        }
        return try document(value, "has at \(answerPath)", validator)
    }

    private func document(
        _ value: JSONValue, _ how: String, _ validator: Validator?
    ) throws(ConfigError) -> SourceDocument {
        guard value.kind == .object else {
            throw ConfigError(.rejected, "\(location) \(how) \(value.kind); a configuration is a JSON object")
        }
        return SourceDocument(value: value, versionPath: versionPath, validator: validator)
    }
}

extension SourceDocument {
    /// Makes a document with the version that it has at a path, if there is one.
    init(value: JSONValue, versionPath: JSONPath?, validator: Validator?) {
        let found = versionPath.flatMap { value.value(at: $0) }
        let version = (found?.string ?? found?.numberText).map(UpstreamVersion.init)
        self.init(value: value, version: version, validator: validator)
    }
}

/// The `errors` of an answer in GraphQL's form (specification of October 2021, section 7.1.2).
struct GraphQLErrors {
    private let first: String
    private let count: Int

    /// Nil where the answer has none.
    init?(in answer: JSONValue) {
        guard let errors = answer.member("errors"), errors.kind == .array,
            let message = errors[0]?.member("message")?.string
        else { return nil }
        first = message
        count = errors.count
    }

    /// The first message on one line, without what it may quote of our request.
    func text(without secrets: [String]) -> String {
        var message = first
        for secret in secrets {
            // "Bearer TOKEN": the token alone may be quoted, too.
            for part in [secret[...]] + secret.split(separator: " ") where part.count > 3 {
                message = message.replacing(part, with: "…")
            }
        }
        message = String(message.prefix(200).map { $0.isNewline ? " " : $0 })
        return "\(count == 1 ? "an error" : "\(count) errors") in place of the document: \(message)"
    }
}
