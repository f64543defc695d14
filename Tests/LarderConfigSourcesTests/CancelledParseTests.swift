import LarderJSON
import LarderPlatform
import LarderUpstream
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("Cancelled parses of documents", .timeLimit(.minutes(15)))
struct CancelledParseTests {
    private static let list = "[" + String(repeating: "1,", count: 200_000) + "1]"
    private static let document = Array(("{\"a\":" + list + "}").utf8)

    /// Runs a body in a cancelled task. Returns the code of its error.
    private func code(_ body: @escaping @Sendable () async throws -> Void) async -> ConfigError.Code? {
        let task = Task { () -> ConfigError.Code? in
            while !Task.isCancelled { await Task.yield() }
            let error = await #expect(throws: ConfigError.self) { try await body() }
            return error?.code
        }
        task.cancel()
        return await task.value
    }

    @Test("the parse of a response ends with its request")
    func response() async {
        let reader = DocumentReader(location: "http://h/")
        #expect(await code { _ = try await reader.document(in: Self.document, validator: nil) } == .cancelled)
    }

    @Test("the parse of an event ends with its stream")
    func event() async {
        let code = await code {
            let reader = SSEDocumentReader(settings: SSESourceSettings(url: "http://h/"))
            _ = try reader.document(after: .init(type: "message", data: Self.document), from: nil)
        }
        #expect(code == .cancelled)
    }

    @Test("a document of etcd is not built for a cancelled request", arguments: [true, false])
    func etcd(isWhole: Bool) async {
        let code = await code {
            let keys = isWhole ? EtcdSourceSettings.Keys.key("/c") : .prefix("/c/")
            let entries = [Array((isWhole ? "/c" : "/c/a").utf8): Self.document]
            _ = try EtcdDocument(keys: keys, format: .json, maximumBytes: 1 << 20)
                .value(of: entries, mayBeEmpty: false)
        }
        #expect(code == .cancelled)
    }

    /// Texts that a parser of JSON5 reads for a long time, each in another loop.
    private static let lenient: [String] = [
        "{a:" + list + ",/**/}",
        "{a:'" + String(repeating: "x", count: 400_000) + "'}",
        "{a:1" + String(repeating: " ", count: 400_000) + "}",
        "{/*" + String(repeating: "*", count: 400_000) + "*/}",
        "{//" + String(repeating: "x", count: 400_000) + "\n}",
        "{" + String(repeating: "x", count: 400_000) + ":1}",
        "{a:" + String(repeating: "1", count: 400_000) + "}",
    ]

    /// Parses a file that is cancelled at a check. Returns the number of checks, and the code of the error.
    private func parse(
        _ text: String, _ name: String, cancelledAt last: Int
    ) -> (checks: Int, code: FileReadError.Code?) {
        var checks = 0
        let files = DocumentFiles(files: [.init(path: name, bytes: Array(text.utf8))])
        do throws(FileReadError) {
            _ = try files.documents {
                checks += 1
                return checks >= last
            }
            return (checks, nil)
        } catch {
            return (checks, error.code)
        }
    }

    @Test("the parse of a file ends at the first check after its cancellation", arguments: lenient)
    func file(text: String) {
        let checks = parse(text, "c.json5", cancelledAt: .max).checks
        // The text is read twice: as UTF-8, and as JSON5.
        #expect(checks >= 12)
        for last in 1...checks { #expect(parse(text, "c.json5", cancelledAt: last) == (last, .cancelled)) }
        #expect(parse("{\"a\":\(Self.list)}", "c.json", cancelledAt: 1) == (1, .cancelled))
    }
}
