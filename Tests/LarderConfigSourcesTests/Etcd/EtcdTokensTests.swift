import Synchronization
import Testing

@testable import LarderConfigSources

@Suite("Tokens of an etcd user", .timeLimit(.minutes(5)))
struct EtcdTokensTests {
    /// The requests for a token. Each waits until the test answers it.
    private final class Requests: Sendable {
        private let state = Mutex((count: 0, cancelled: 0))
        private let arrivals: AsyncStream<Void>
        private let arrival: AsyncStream<Void>.Continuation
        private let answers: AsyncStream<String>
        private let answer: AsyncStream<String>.Continuation

        init() {
            (arrivals, arrival) = AsyncStream.makeStream()
            (answers, answer) = AsyncStream.makeStream()
        }

        var count: Int { state.withLock { $0.count } }
        var cancelled: Int { state.withLock { $0.cancelled } }

        func send() async throws(EtcdError) -> EtcdTokens.Token {
            state.withLock { $0.count += 1 }
            arrival.yield()
            for await text in answers { return .text(text) }
            state.withLock { $0.cancelled += 1 }
            throw EtcdError(.cancelled, "cancelled")
        }

        func next() async { for await _ in arrivals { return } }
        func answer(_ text: String) { answer.yield(text) }
    }

    private let tokens = EtcdTokens()
    private let requests = Requests()

    private func ask(_ endpoint: String = "a") -> Task<EtcdTokens.Token, any Error> {
        Task.immediate { [tokens, requests] in
            try await tokens.token(at: endpoint) { () throws(EtcdError) in try await requests.send() }
        }
    }

    @Test("callers that need a token at the same time share one request")
    func shared() async throws {
        let callers = (0..<3).map { _ in ask() }
        await requests.next()
        requests.answer("t")
        for caller in callers { #expect(try await caller.value == .text("t")) }
        #expect(try await ask().value == .text("t"))
        #expect(requests.count == 1)
    }

    @Test("a request continues while a caller waits for it, and is cancelled with the last one")
    func cancelled() async throws {
        let callers = [ask(), ask()]
        await requests.next()
        callers[0].cancel()
        requests.answer("t")
        #expect(try await callers[1].value == .text("t"))
        #expect(requests.cancelled == 0)

        tokens.forget("t")
        let last = ask()
        await requests.next()
        last.cancel()
        _ = await last.result
        #expect(requests.cancelled == 1)
    }

    @Test("the rejection of an earlier token does not discard a newer one")
    func rejection() async throws {
        for text in ["1", "2"] {
            let caller = ask()
            await requests.next()
            requests.answer(text)
            #expect(try await caller.value == .text(text))
            tokens.forget("1")
        }
        #expect(try await ask().value == .text("2"))
        #expect(requests.count == 2)
    }
}
