import LarderConfigModel
import LarderJSON
import LarderUpstream

/// Sends a GraphQL request and interprets the response. If the server cannot use the hash of a persisted query, sends
/// the request once more with another body.
struct GraphQLExchange {
    let fetcher: HTTPFetcher
    let reader: DocumentReader
    let request: GraphQLRequest

    fileprivate enum Verdict {
        case answer(SourceAnswer)
        /// The server does not know the hash, and needs the query together with it.
        case queryIsUnknown
        /// The server does not support persisted queries, and needs the query without the hash.
        case persistingIsUnsupported
    }

    func answer(to original: FetchRequest) async throws(ConfigError) -> SourceAnswer {
        var http = original
        http.readsProblems = true
        if !http.headers.contains(where: { $0.name.lowercased() == "accept" }) {
            http.headers.append(("Accept", GraphQLRequest.accept))
        }
        if let persisted = request.persisted { http.body = persisted.hashOnly }
        var verdict = try await send(http, hasOtherBody: request.persisted?.withQuery != nil)
        switch verdict {
        case .answer(let answer): return answer
        case .queryIsUnknown: http.body = request.persisted?.withQuery
        case .persistingIsUnsupported: http.body = request.persisted?.withoutHash
        }
        verdict = try await send(http, hasOtherBody: false)
        guard case .answer(let answer) = verdict else { return .notModified }
        return answer
    }

    /// - Parameter hasOtherBody: whether there is another body to send if the server cannot use this one
    private func send(_ http: FetchRequest, hasOtherBody: Bool) async throws(ConfigError) -> Verdict {
        switch try await fetcher.answer(to: http) {
        case .waitEnded: return .answer(.waitEnded)
        case .unchanged, .response(.notModified): return .answer(.notModified)
        case .response(.document(let document)): return try await judge(document, hasOtherBody: hasOtherBody)
        case .response(.problem(let error, let document)):
            let isGraphQL = document.metadata.mediaType == GraphQLRequest.mediaType
            if isGraphQL, 200..<300 ~= document.metadata.status {
                return try await judge(document, hasOtherBody: hasOtherBody)
            }
            let errors = (try? JSONValue(parsing: document.body)).flatMap { GraphQLErrors(in: $0) }
            if hasOtherBody, let verdict = errors?.verdict { return verdict }
            // A body with another media type may come from a proxy, so its errors are not reported.
            guard isGraphQL, let errors else { throw ConfigError(error) }
            throw ConfigError(
                .upstreamFailed, "\(error.message): \(errors.text(without: reader.secrets))",
                retryAfter: error.retryAfter)
        }
    }

    private func judge(_ document: FetchDocument, hasOtherBody: Bool) async throws(ConfigError) -> Verdict {
        let answer = try await reader.parse(document.body)
        if hasOtherBody, let verdict = GraphQLErrors(in: answer)?.verdict { return verdict }
        return .answer(.document(try reader.document(in: answer, validator: document.validator)))
    }
}

extension GraphQLErrors {
    fileprivate var verdict: GraphQLExchange.Verdict? {
        if isPersistedQueryUnknown { return .queryIsUnknown }
        return isPersistingUnsupported ? .persistingIsUnsupported : nil
    }
}
