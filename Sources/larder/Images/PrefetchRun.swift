import LarderClient

/// A prefetch in portions, one after the other, and its display.
actor PrefetchRun {
    /// How far it has come.
    private(set) var tally: PrefetchTally
    private let portions: [ArraySlice<ImagePrefetch.Item>]
    private let concurrency: Int?
    private let display: ProgressDisplay

    /// How often the display is drawn again although nothing has happened.
    private static let tick = Duration.milliseconds(500)

    init(
        portions: [ArraySlice<ImagePrefetch.Item>], concurrency: Int?, total: Int, screen: ProgressDisplay.Screen
    ) {
        self.portions = portions
        self.concurrency = concurrency
        tally = PrefetchTally(total: total)
        display = ProgressDisplay(total: total, on: screen)
    }

    /// Runs to the end. Where the task is cancelled the agent is asked to stop, and ``tally`` says how far it was.
    func fetch(over client: LarderClient) async throws -> PrefetchReport {
        let ticking = Task { [display] in
            while true {
                try await Task.sleep(for: Self.tick)
                await display.draw()
            }
        }
        do {
            let report = try await fetchPortions(over: client)
            ticking.cancel()
            await display.end()
            return report
        } catch {
            ticking.cancel()
            await display.end()
            throw error
        }
    }

    private func fetchPortions(over client: LarderClient) async throws -> PrefetchReport {
        var report = PrefetchReport()
        for portion in portions {
            let before = report.result
            for try await step in client.images.prefetch(Array(portion), concurrency: concurrency) {
                switch step {
                case .progress(let now):
                    await show(
                        done: before.fetched + before.held + now.done, failed: before.failed + now.failed,
                        bytes: before.bytes + now.bytes)
                case .finished(let result):
                    report.add(result)
                    let sum = report.result
                    await show(done: sum.fetched + sum.held, failed: sum.failed, bytes: sum.bytes)
                }
            }
        }
        return report
    }

    private func show(done: Int, failed: Int, bytes: Int) async {
        tally = PrefetchTally(done: done, failed: failed, bytes: bytes, total: tally.total)
        await display.show(tally)
    }
}
