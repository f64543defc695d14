import LarderUpstream
import TestSupport
import Testing

@Suite("Report plan")
struct ReportPlanTests {
    private static let start = Duration.seconds(1_700_000_000)
    private var generator = SeededGenerator(seed: 1)
    private var plan = ReportPlan(
        interval: .seconds(300), window: .seconds(60), seed: "host\u{0}https://fleet.example/report",
        startingAt: .seconds(1000))
    /// How long after a change the host reports.
    private let place: Duration

    init() throws { place = try #require(plan.due) - .seconds(1000) }

    private mutating func report(_ end: ReportPlan.End = .accepted) throws -> Duration {
        let now = try #require(plan.due)
        plan.began(at: now)
        plan.ended(end, at: now, time: Self.start + now, using: &generator)
        return now
    }

    @Test("the first report is at the place of the host within the window")
    func first() {
        #expect(place >= .zero && place < .seconds(60))
        #expect(plan.due == .seconds(1000) + place)
    }

    @Test("without changes, a host reports once per interval")
    mutating func heartbeat() throws {
        _ = try report()
        var last = try report()
        for _ in 0..<10 {
            let next = try report()
            #expect(Duration.seconds(270)...Duration.seconds(330) ~= next - last)
            last = next
        }
    }

    @Test("a change is reported at the place of the host within the window, and later changes do not delay it")
    mutating func change() throws {
        _ = try report()
        let last = try report()
        plan.changed(at: last + .seconds(60))
        #expect(plan.due == last + .seconds(60) + place)
        #expect(!plan.isAwaitingChange(at: last + .seconds(61)))
        plan.changed(at: last + .seconds(61))
        #expect(plan.due == last + .seconds(60) + place)
    }

    @Test("two reports are at least 30 s apart, however often the content changes")
    mutating func pause() throws {
        var last = try report()
        for _ in 0..<20 {
            for offset in stride(from: 0, to: 30, by: 5) { plan.changed(at: last + .seconds(offset)) }
            let next = try report()
            #expect(next - last >= .seconds(30))
            last = next
        }
    }

    @Test("while reports fail, changes cause none")
    mutating func failure() throws {
        let last = try report(.failed(retryAfter: nil))
        let due = try #require(plan.due)
        #expect(due - last >= .seconds(30))
        plan.changed(at: last + .seconds(1))
        #expect(plan.due == due)
        #expect(plan.isFailing && !plan.isAwaitingChange(at: last + .seconds(1)))
        _ = try report()
        #expect(!plan.isFailing)
    }

    @Test("Retry-After is a lower bound")
    mutating func retryAfter() throws {
        let last = try report(.failed(retryAfter: .seconds(900)))
        let due = try #require(plan.due)
        #expect(due - last >= .seconds(900))
    }
}
