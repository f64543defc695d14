import Foundation
import LarderUpstream
import TestSupport
import Testing

extension FetchTimeouts {
    /// Timeouts for tests that do not test timeouts. They are long, because many tests run at the same time and a busy
    /// machine can delay each of them.
    static let long = FetchTimeouts(idle: .seconds(300), whole: .seconds(600))
}

/// Runs `body` with a fetcher that is shut down afterwards.
func withFetcher<T>(
    _ change: (inout HTTPFetcher.Configuration) -> Void = { _ in },
    _ body: (HTTPFetcher) async throws -> T
) async throws -> T {
    var configuration = HTTPFetcher.Configuration(version: "1.2.3", connectTimeout: .seconds(300))
    change(&configuration)
    let fetcher = HTTPFetcher(configuration: configuration)
    do {
        let result = try await body(fetcher)
        await fetcher.shutdown()
        return result
    } catch {
        await fetcher.shutdown()
        throw error
    }
}

/// Fetches from a server that runs `script`, and returns the error.
func failure(
    _ change: (inout FetchRequest) -> Void = { _ in },
    script: @escaping RawOrigin.Script
) async throws -> UpstreamError {
    let server = try RawOrigin.listening(script: script)
    let error = try await withFetcher { fetcher in
        var request = FetchRequest(url: server.url, timeouts: .long)
        change(&request)
        return try await #require(throws: UpstreamError.self) { try await fetcher.fetch(request) }
    }
    server.stop()
    return error
}

/// Fetches from a server that runs `script`, and returns the document.
func document(
    _ change: (inout FetchRequest) -> Void = { _ in },
    script: @escaping RawOrigin.Script
) async throws -> FetchDocument {
    let server = try RawOrigin.listening(script: script)
    let document = try await withFetcher { fetcher in
        var request = FetchRequest(url: server.url, timeouts: .long)
        change(&request)
        return try await fetcher.fetch(request).requireDocument()
    }
    server.stop()
    return document
}

extension FetchResponse {
    func requireDocument() throws -> FetchDocument {
        guard case .document(let document) = self else { throw NotADocument(response: self) }
        return document
    }

    struct NotADocument: Error { let response: FetchResponse }
}

/// Compresses data with gzip(1).
func gzip(_ data: Data) throws -> [UInt8] {
    try withTemporaryDirectory { directory in
        let file = directory + "/data"
        try data.write(to: URL(filePath: file))
        let command = try Command.run("gzip", [file])
        guard command.end == .exit(0) else { throw HarnessError(command.log) }
        return try Array(Data(contentsOf: URL(filePath: file + ".gz")))
    }
}

/// Returns a response with a correct Content-Length.
func ok(_ body: String, _ fields: String = "") -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body)"
}
