import Testing

@testable import LarderJSON

@Suite("Cancelled parses", .timeLimit(.minutes(15)))
struct CancelledParseTests {
    /// Large documents, each of which spends the time of the parser in another way.
    private static let documents: [String] = [
        "[" + String(repeating: "1,", count: 200_000) + "1]",
        "[" + String(repeating: #"{"a":[]},"#, count: 100_000) + "1]",
        "[" + String(repeating: "{" + (0..<40).map { "\"\($0)\":0" }.joined(separator: ",") + "},", count: 3000) + "1]",
        "{" + (0..<100_000).map { "\"\($0)\":0" }.joined(separator: ",") + "}",
        "{" + String(repeating: #""a":0,"#, count: 100_000) + "\"b\":1}",
    ]

    /// Parses a document that is cancelled at a check.
    ///
    /// - Returns: the number of checks, and whether the parse was cancelled
    private func parse(_ text: String, cancelledAt last: Int) throws -> (checks: Int, isCancelled: Bool) {
        var checks = 0
        do {
            let value = try JSONValue(parsing: Array(text.utf8)) {
                checks += 1
                return checks >= last
            }
            #expect(try value == JSONValue(parsing: text))
            return (checks, false)
        } catch is CancellationError {
            return (checks, true)
        }
    }

    @Test("a parse of a large document ends at the first check after its cancellation", arguments: documents)
    func cancelled(document: String) throws {
        let whole = try parse(document, cancelledAt: .max)
        #expect(!whole.isCancelled)
        #expect(whole.checks >= 40)
        for last in [1, 2, whole.checks / 2, whole.checks] {
            #expect(try parse(document, cancelledAt: last) == (last, true))
        }
    }

    @Test("a cancelled parse does not read the rest of the document", arguments: documents)
    func offset(document: String) throws {
        let bytes = Array((document + " is not JSON").utf8)
        let target = Document(textCapacity: bytes.count, nodeCapacity: 64)
        bytes.withUnsafeBytes { target.setText($0) }
        let failure = try #require(target.index(unless: { true }) { TapeParser.index($0, maximumDepth: 8) })
        #expect(failure.kind == .cancelled)
        #expect(failure.offset < 64 << 10)
    }

    @Test("a parse in a cancelled task throws CancellationError")
    func task() async throws {
        let bytes = Array(Self.documents[0].utf8)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            #expect(throws: CancellationError.self) { try JSONValue(parsing: bytes) { Task.isCancelled } }
            // Without a check, a parse does not depend on the task.
            #expect(throws: Never.self) { try JSONValue(parsing: bytes) }
        }
        task.cancel()
        await task.value
    }

    @Test("a small document is parsed without a check")
    func small() throws {
        #expect(try parse(#"{"a":[1,2,3]}"#, cancelledAt: 1) == (0, false))
    }
}
