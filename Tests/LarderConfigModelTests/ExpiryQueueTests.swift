import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Expiry queue")
struct ExpiryQueueTests {
    private typealias Moment = ExpiryQueue.Moment

    private func override(_ name: String, _ time: Int) -> ExpiringOverride {
        ExpiringOverride(path: [name], expiresAt: time)
    }

    private func layer(_ overrides: [ExpiringOverride]) -> OverrideLayer {
        OverrideLayer(
            entries: overrides.map { .init(path: $0.path, value: 1, setAt: 0, expiresAt: $0.expiresAt) })
    }

    @Test("overrides expire in order, by the time of day or by uptime")
    func order() {
        var queue = ExpiryQueue()
        #expect(queue.next == nil)
        let now = Moment(timeOfDay: 1000, uptime: 0)
        for name in ["c", "a", "b"] {
            queue.insert(override(name, 1000 + Int(name.utf8.first ?? 0)), now: now)
        }
        #expect(queue.next == Moment(timeOfDay: 1097, uptime: 97))
        #expect(queue.popExpired(at: Moment(timeOfDay: 1096, uptime: 96)).isEmpty)
        #expect(queue.popExpired(at: Moment(timeOfDay: 1098, uptime: 0)).map(\.path) == [["a"], ["b"]])
        // The time of day is set back by a day, but all three lifetimes have passed by uptime. a and b are returned
        // again, because they have now expired by both clocks.
        let rest = queue.popExpired(at: Moment(timeOfDay: -86_400_000, uptime: 99)).map(\.path)
        #expect(rest == [["a"], ["b"], ["c"]])
    }

    @Test("overrides that were replaced or removed are dropped from the front of the queue")
    func stale() {
        var queue = ExpiryQueue()
        let now = Moment(timeOfDay: 0, uptime: 0)
        for (name, time) in [("a", 1), ("b", 2), ("c", 3)] { queue.insert(override(name, time), now: now) }
        queue.dropStale(comparedTo: layer([override("a", 7), override("c", 3)]))
        #expect(queue.next == Moment(timeOfDay: 3, uptime: 3))
        queue.dropStale(comparedTo: OverrideLayer())
        #expect(queue.next == nil)
    }

    @Test("a rebuilt queue has exactly the overrides of the layer; those queued before keep the uptime of their expiry")
    func rebuilt() {
        var queue = ExpiryQueue()
        queue.insert(override("a", 1000), now: Moment(timeOfDay: 0, uptime: 0))
        queue.insert(override("removed", 500), now: Moment(timeOfDay: 0, uptime: 0))
        // The time of day is set back by 5.4 s.
        let now = Moment(timeOfDay: -5000, uptime: 400)
        queue.rebuild(from: layer([override("a", 1000), override("b", 1100)]), now: now)
        #expect(queue.count == 2)
        #expect(queue.next == Moment(timeOfDay: 1000, uptime: 1000))
        #expect(queue.popExpired(at: Moment(timeOfDay: -4000, uptime: 1000)).map(\.path) == [["a"]])
    }
}
