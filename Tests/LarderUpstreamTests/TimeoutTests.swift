import TestSupport
import Testing

@testable import LarderUpstream

@Suite("Time limits of requests", .timeLimit(.minutes(15)))
struct TimeoutTests {
    // The limit that a test does not expect is so long that a starved machine cannot reach it first.
    private let short = FetchTimeouts(idle: .seconds(1), whole: .seconds(86_400))

    @Test("an origin that accepts the connection and sends nothing causes a timeout")
    func silence() async throws {
        let error = try await failure({ $0.timeouts = short }) { _, _ in [] }
        #expect(error.code == .timeout)
        #expect(error.message.contains("sent nothing"))
    }

    @Test("an origin that stops sending in the middle of the body causes a timeout")
    func silenceInBody() async throws {
        let error = try await failure({ $0.timeouts = short }) { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")]
        }
        #expect(error.code == .timeout)
    }

    @Test("an origin that keeps sending single bytes does not extend the total time limit")
    func trickle() async throws {
        let limits = FetchTimeouts(idle: .seconds(86_400), whole: .milliseconds(200))
        let error = try await failure({ $0.timeouts = limits }) { _, _ in
            [.send("HTTP/1.1 200 OK\r\n\r\n"), .trickle]
        }
        #expect(error.code == .timeout)
        #expect(error.message.contains("completely"))
    }

    @Test("the total time limit includes redirects")
    func redirects() async throws {
        let limits = FetchTimeouts(idle: .seconds(86_400), whole: .milliseconds(200))
        let error = try await failure({ $0.timeouts = limits }) { number, _ in
            number < 3 ? [.send("HTTP/1.1 302 X\r\nLocation: /\(number)\r\nContent-Length: 0\r\n\r\n")] : []
        }
        #expect(error.code == .timeout)
    }

    @Test("the time between the response head and the caller's first read of the body does not count as idle")
    func pauseBeforeBody() async {
        let clock = ManualClock()
        let deadline = LarderUpstream.Deadline(FetchTimeouts(idle: .seconds(10), whole: .seconds(600)), clock: clock)
        deadline.progressed()
        deadline.bodyBegins()
        clock.advance(by: .seconds(60))
        // No limit is exceeded, so `expiry` waits until the task is cancelled.
        let watch = Task { await deadline.expiry() }
        watch.cancel()
        #expect(await watch.value == nil)
        deadline.progressed()
        clock.advance(by: .seconds(10))
        #expect(await deadline.expiry() == .idle)
    }

    @Test("a transfer below the minimum rate fails as too slow; the minimum is higher while other requests wait")
    func slowTransfers() async {
        let (slow, fast) = (
            TransferRate(bytes: 10_000, in: .seconds(10)), TransferRate(bytes: 160_000, in: .seconds(10))
        )
        let limits = FetchTimeouts(idle: .seconds(60), whole: .seconds(600), slowest: slow, slowestWhileAwaited: fast)
        for (bytes, isAwaited, expected) in [
            (500, false, LarderUpstream.Deadline.Expiry.slow(slow, isAwaited: false)),
            (5000, true, .slow(fast, isAwaited: true)), (5000, false, .whole), (20_000, true, .whole),
        ] {
            let clock = ManualClock()
            let deadline = LarderUpstream.Deadline(limits, clock: clock, isAwaited: { isAwaited })
            deadline.bodyBegins()
            deadline.progressed()
            for _ in 0..<10 {
                clock.advance(by: .seconds(1))
                deadline.received(bytes)
            }
            if expected == .whole { clock.advance(by: .seconds(590)) }
            #expect(await deadline.expiry() == expected)
        }
    }

    @Test("a host name that does not resolve within the idle limit is reported as unresolved, not as idle")
    func slowResolver() async {
        let clock = ManualClock()
        let limits = FetchTimeouts(idle: .seconds(10), whole: .seconds(600))
        let (unnamed, named) = (
            LarderUpstream.Deadline(limits, clock: clock), LarderUpstream.Deadline(limits, clock: clock)
        )
        named.progressed()
        clock.advance(by: .seconds(10))
        #expect(await unnamed.expiry() == .unresolved)
        #expect(await named.expiry() == .idle)
    }
}
