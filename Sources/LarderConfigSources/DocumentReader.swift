import LarderConfigModel
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON

/// Extracts the configuration from the response of an origin.
struct DocumentReader: Sendable {
    /// The URL of the origin, for messages.
    var location: String
    /// The path of the document in the response; nil if the response is the document.
    var responsePath: JSONPath?
    /// The path of the version in the document; nil for none.
    var versionPath: JSONPath?
    /// Whether a member `errors` of the response is read as GraphQL errors. Such errors show that the response is
    /// incomplete.
    var hasErrorsMember = false
    var partialData = HTTPSourceSettings.PartialData.reject
    /// The condition under which a document without a version is rejected.
    var versionRequirement = VersionRequirement.onceSeen
    /// The secrets of the request. They are removed from error messages of the origin, which may quote them.
    var secrets: [String] = []

    /// Reads the configuration from a body. Parses it outside any actor.
    /// - Throws: `rejected` if the body is not a configuration; `upstreamFailed` if it reports an error of the origin
    func document(in body: [UInt8], validator: Validator?) async throws(ConfigError) -> SourceDocument {
        let answer = try await parse(body)
        let errors = hasErrorsMember ? GraphQLErrors(in: answer) : nil
        let value = responsePath.map { answer.value(at: $0) } ?? answer
        if let errors, partialData == .reject || value?.kind != .object {
            let isPartial = partialData == .reject && value?.kind == .object
            throw ConfigError(
                .upstreamFailed,
                "\(location) returned \(errors.text(without: secrets))"
                    + (isPartial ? "; set partialData to \"accept\" to use the data of responses with errors" : ""))
        }
        guard let responsePath else { return try document(answer, "returned", validator) }
        guard let value else {
            throw ConfigError(
                .rejected, "the response of \(location) has no value at \"\(responsePath)\"; correct responsePath")
        }
        return try document(value, "has at \"\(responsePath)\"", validator)
    }

    /// Parses a body outside any actor.
    /// - Throws: `rejected` if it is not JSON; `cancelled` if the task is cancelled
    private func parse(_ body: [UInt8]) async throws(ConfigError) -> JSONValue {
        try await concurrently { () async throws(ConfigError) in
            do {
                return try JSONValue(parsing: body) { Task.isCancelled }
            } catch is CancellationError {
                throw ConfigError(.cancelled, "the response of \(location) was not parsed; the request was cancelled")
            } catch {
                throw ConfigError(.rejected, "\(location) did not return JSON: \(JSONError.text(error, in: body))")
            }
        }
    }

    private func document(
        _ value: JSONValue, _ how: String, _ validator: Validator?
    ) throws(ConfigError) -> SourceDocument {
        guard value.kind == .object else {
            throw ConfigError(
                .rejected, "\(location) \(how) \(value.kind.article); a configuration must be a JSON object")
        }
        return SourceDocument(
            value: value, versionPath: versionPath, requirement: versionRequirement, validator: validator)
    }
}
