import LarderClient
import Testing

@Suite("LarderBackoff")
struct BackoffTests {
    @Test("the maximum delay doubles with each attempt up to the cap, and does not overflow")
    func bound() {
        let backoff = LarderBackoff(base: .milliseconds(100), cap: .seconds(10), fraction: { 1 })
        #expect(backoff.delay(beforeAttempt: 0) == .milliseconds(100))
        #expect(backoff.delay(beforeAttempt: 3) == .milliseconds(800))
        #expect(backoff.delay(beforeAttempt: 10) == .seconds(10))
        #expect(backoff.delay(beforeAttempt: .max) == .seconds(10))
    }

    @Test("with full jitter, the delay is a random fraction of the maximum")
    func jitter() {
        let backoff = LarderBackoff(base: .seconds(1), cap: .seconds(8), fraction: { 0.25 })
        #expect(backoff.delay(beforeAttempt: 2) == .seconds(1))
        #expect(LarderBackoff(fraction: { 0 }).delay(beforeAttempt: 5) == .zero)
        for _ in 0..<1000 {
            let delay = LarderBackoff().delay(beforeAttempt: 4)
            #expect(delay >= .zero && delay <= .milliseconds(800))
        }
    }
}
