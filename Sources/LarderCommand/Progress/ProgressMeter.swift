/// Says how fast a prefetch is going now, and how long the rest will take at that pace.
///
/// Both go by the last ten seconds: what was held already is settled at once, and a pace from the start would promise for
/// minutes what the network cannot keep. It is a plain value: time is given to it.
struct ProgressMeter {
    private struct Sample {
        let at: Duration
        let tally: PrefetchTally
    }

    private static let window = Duration.seconds(10)
    /// Samples closer than this say nothing more than one of them.
    private static let spacing = Duration.milliseconds(250)

    private var samples: [Sample]

    /// Begins at a time of a monotonic clock.
    init(_ tally: PrefetchTally, at now: Duration) {
        samples = [Sample(at: now, tally: tally)]
    }

    /// Takes the state of now.
    mutating func note(_ tally: PrefetchTally, at now: Duration) {
        // The oldest sample is the last one that is not younger than the window, so that the window is full.
        while samples.count > 1, now - samples[1].at >= Self.window { samples.removeFirst() }
        if samples.count > 1, samples[samples.count - 1].at - samples[samples.count - 2].at < Self.spacing {
            samples.removeLast()
        }
        samples.append(Sample(at: now, tally: tally))
    }

    /// Bytes per second; 0 where nothing can be said yet.
    var bytesPerSecond: Int { Int(clamping: Int64(pace(\.bytes).rounded())) }

    /// The time until all is settled, in milliseconds; nil where nothing is settled at present, so that nobody can tell.
    var millisecondsLeft: Int? {
        guard let tally = samples.last?.tally else { return nil }
        let left = tally.total - tally.settled
        if left == 0 { return 0 }
        let pace = pace(\.settled)
        return pace > 0 ? Int((Double(left) / pace * 1000).rounded()) : nil
    }

    private func pace(_ figure: KeyPath<PrefetchTally, Int>) -> Double {
        guard let first = samples.first, let last = samples.last else { return 0 }
        let seconds = (last.at - first.at) / .seconds(1)
        return seconds > 0 ? Double(last.tally[keyPath: figure] - first.tally[keyPath: figure]) / seconds : 0
    }
}

/// How far a prefetch has come.
struct PrefetchTally: Equatable {
    /// Images that are held now.
    var done = 0
    /// Images that could not be had.
    var failed = 0
    /// Bytes that came from the network for them.
    var bytes = 0
    /// Images that were asked for.
    var total: Int

    /// Images that are settled one way or the other.
    var settled: Int { done + failed }

    /// The part that is settled, in percent, rounded down: 100 is said only when all is done.
    var percent: Int { total > 0 ? settled * 100 / total : 100 }
}
