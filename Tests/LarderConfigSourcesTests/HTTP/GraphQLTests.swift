import ConfigTestSupport
import LarderJSON
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("GraphQL source", .timeLimit(.minutes(15)))
struct GraphQLSourceTests {
    private static let query = #"{"query":"{ prices { list } }"}"#

    /// Fetches once from an origin that follows a script.
    private func fetch(
        _ change: (inout HTTPSourceSettings) -> Void = { _ in }, path: String = "", body: String? = query,
        script: @escaping RawOrigin.Script
    ) async throws -> (result: Result<SourceResponse, ConfigError>, requests: [RawOrigin.Request]) {
        let origin = try RawOrigin.listening(script: script)
        defer { origin.stop() }
        let fetcher = HTTPFetcher(configuration: .init(version: "1.2.3", connectTimeout: .seconds(300)))
        var configuration = HTTPSourceSettings(url: origin.url + path, body: body.map { Array($0.utf8) })
        configuration.timeout = .seconds(300)
        change(&configuration)
        let source = HTTPSource(
            fetcher: fetcher, configuration: configuration, blocking: BlockingThreadPool(SharedThreads.pool))
        let result: Result<SourceResponse, ConfigError>
        do throws(ConfigError) {
            result = .success(try await source.fetch(ifChangedFrom: nil, reason: .requested))
        } catch {
            result = .failure(error)
        }
        await fetcher.shutdown()
        return (result, origin.requests.map(RawOrigin.Request.init))
    }

    private static func response(
        _ body: String, _ status: String = "200 OK", type: String = "application/json"
    ) -> RawOrigin.Answer {
        [.send("HTTP/1.1 \(status)\r\nContent-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")]
    }

    private func document(_ result: Result<SourceResponse, ConfigError>) throws -> JSONValue? {
        guard case .document(let document) = try result.get() else { return nil }
        return document.value
    }

    private func failure(_ result: Result<SourceResponse, ConfigError>) throws -> ConfigError {
        guard case .failure(let error) = result else { throw HarnessError("the fetch succeeded") }
        return error
    }

    @Test(
        "a response with errors is a failure, regardless of the form of the errors",
        arguments: [
            (#""errors":[{"code":7}]"#, "an error without a message"),
            (#""errors":[{"extensions":{}},{"message":"no price"}]"#, "2 errors: no price"),
            (#""errors":["boom"]"#, "an error: boom"), (#""errors":{"message":"boom"}"#, "an error: boom"),
            (#""errors":"boom""#, "an error: boom"), (#""errors":true"#, "an error without a message"),
            (#""errors":{}"#, "an error without a message"), (#""errors":[null]"#, "an error without a message"),
        ])
    func partialData(errors: String, text: String) async throws {
        for (responsePath, body) in [
            (JSONPath(["data", "prices"]), Self.query), (JSONPath(["data", "prices"]), nil), (nil, Self.query),
        ] {
            let (result, _) = try await fetch({ $0.responsePath = responsePath }, body: body) { _, _ in
                Self.response("{\"data\":{\"prices\":{\"list\":3}},\(errors)}")
            }
            let error = try failure(result)
            #expect(error.code == .upstreamFailed)
            #expect(error.message.contains("returned \(text); set partialData to \"accept\""), "\(error)")
        }
    }

    @Test("a response whose errors are null or empty is accepted", arguments: ["null", "[]"])
    func noErrors(_ errors: String) async throws {
        let (result, _) = try await fetch({ $0.responsePath = JSONPath(["data"]) }) { _, _ in
            Self.response("{\"data\":{\"v\":1},\"errors\":\(errors)}")
        }
        #expect(try document(result) == ["v": 1])
    }

    @Test("partial data is used if the settings accept it, but null data is a failure")
    func acceptedPartialData() async throws {
        for (data, expected) in [(#"{"prices":{"list":3}}"#, ["list": 3] as JSONValue?), ("null", nil)] {
            let (result, _) = try await fetch({
                $0.responsePath = JSONPath(["data", "prices"])
                $0.partialData = .accept
            }) { _, _ in Self.response("{\"data\":\(data),\"errors\":[{\"message\":\"no stock\"}]}") }
            if let expected {
                #expect(try document(result) == expected)
            } else {
                #expect(try failure(result).message.hasSuffix("returned an error: no stock"))
            }
        }
    }

    @Test("without a query and responsePath, a member named errors is part of the configuration")
    func plainDocument() async throws {
        for body in [nil, #"{"query":{"match":"all"}}"#, "[]"] {
            let (result, requests) = try await fetch(body: body) { _, _ in Self.response(#"{"errors":["retry"]}"#) }
            #expect(try document(result) == ["errors": ["retry"]])
            #expect(requests[0]["accept"] == "*/*")
        }
    }

    @Test("a GraphQL request accepts the media type of GraphQL responses, unless the settings override it")
    func accept() async throws {
        for (body, path, own, expected) in [
            (Self.query, "", nil, "application/graphql-response+json, application/json"),
            (nil, "graphql?query=%7Bv%7D", nil, "application/graphql-response+json, application/json"),
            (nil, "graphql?a=%B1&query=%7bv%7d", nil, "application/graphql-response+json, application/json"),
            (nil, "graphql?query={v}#a", nil, "application/graphql-response+json, application/json"),
            (nil, "search?q=%7B&querying=%7B", nil, "*/*"), (nil, "search?q=1#?query=%7B", nil, "*/*"),
            (nil, "search?query=v", nil, "*/*"), (Self.query, "", "application/json", "application/json"),
        ] as [(String?, String, String?, String)] {
            let (_, requests) = try await fetch(
                { $0.access.headers = own.map { ["accept": $0] } ?? [:] }, path: path, body: body
            ) {
                _, _ in Self.response(#"{"v":1}"#)
            }
            #expect(requests.map { $0["accept"] } == [expected])
        }
    }

    @Test("the body of an error response is used only if it has the media type of GraphQL responses")
    func errorStatus() async throws {
        let body = #"{"errors":[{"message":"syntax error"}]}"#
        for (type, text) in [
            ("application/graphql-response+json; charset=utf-8", "syntax error"), ("application/json", nil),
        ] {
            let (result, _) = try await fetch { _, _ in Self.response(body, "400 Bad Request", type: type) }
            let error = try failure(result)
            #expect(error.code == .upstreamFailed)
            #expect(error.message.contains("returned status 400"))
            #expect(error.message.contains("syntax error") == (text != nil), "\(error)")
        }
        let (result, _) = try await fetch { _, _ in
            [.send("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(try failure(result).retryAfter == .seconds(7))
    }

    @Test("data of any 2xx response is used if it has the media type of GraphQL responses")
    func successStatus() async throws {
        for (type, isAccepted) in [("application/graphql-response+json", true), ("application/json", false)] {
            let (result, _) = try await fetch({ $0.responsePath = JSONPath(["data"]) }) { _, _ in
                Self.response(#"{"data":{"v":1}}"#, "207 Partial", type: type)
            }
            if isAccepted { #expect(try document(result) == ["v": 1]) } else { _ = try failure(result) }
        }
    }
}
