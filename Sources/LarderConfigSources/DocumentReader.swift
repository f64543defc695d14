import LarderConfigModel
import LarderHTTPSemantics
import LarderJSON
import LarderUpstream

/// How the configuration is found in what an origin answered.
struct DocumentReader: Sendable {
    /// The origin, for messages.
    var location: String
    /// Where in the answer the document is; nil where it is the answer.
    var answerPath: JSONPath?
    /// Where the document says its own version; nil where it does not.
    var versionPath: JSONPath?
    /// Whether a member `errors` says that the answer is incomplete.
    var hasErrorsMember = false
    /// What to do with data that came with errors.
    var partialData = HTTPSourceSettings.PartialData.refuse
    /// Whether a document without a version is rejected.
    var versionRequirement = VersionRequirement.onceSeen
    /// What an origin may have learnt of us and must not be quoted with.
    var secrets: [String] = []

    /// Checks that an answer's body holds a configuration. Large documents are parsed away from every actor.
    /// - Throws: `rejected` with what is wrong with the body; `upstreamFailed` where the body says that the origin failed.
    func document(in body: [UInt8], validator: Validator?) async throws(ConfigError) -> SourceDocument {
        try document(in: try await parse(body), validator: validator)
    }

    /// Parses a body, away from every actor.
    /// - Throws: `rejected` if it is not JSON.
    @concurrent
    func parse(_ body: [UInt8]) async throws(ConfigError) -> JSONValue {
        do {
            return try JSONValue(parsing: body)
        } catch {
            throw ConfigError(.rejected, "\(location) did not answer with JSON: \(error)")
        }
    }

    /// Checks that an answer holds a configuration.
    /// - Throws: As ``document(in:validator:)-([UInt8],_)``.
    func document(in answer: JSONValue, validator: Validator?) throws(ConfigError) -> SourceDocument {
        let errors = hasErrorsMember ? GraphQLErrors(in: answer) : nil
        let value = answerPath.map { answer.value(at: $0) } ?? answer
        if let errors, partialData == .refuse || value?.kind != .object {
            let isPartial = partialData == .refuse && value?.kind == .object
            throw ConfigError(
                .upstreamFailed,
                "\(location) answered with \(errors.text(without: secrets))"
                    + (isPartial ? "; set partialData to \"accept\" to use data that comes with errors" : ""))
        }
        guard let answerPath else { return try document(answer, "answered with", validator) }
        guard let value else {
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
        return SourceDocument(
            value: value, versionPath: versionPath, requirement: versionRequirement, validator: validator)
    }
}
