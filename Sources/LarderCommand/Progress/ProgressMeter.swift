/// Estimates the current rate of a prefetch and its remaining time.
///
/// Both are based on the last ten seconds. An average since the start would be far too high during the first minutes,
/// because images that are already cached are done immediately. The type has no clock; the time is passed to it.
struct ProgressMeter {
    private struct Sample {
        let at: Duration
        let tally: PrefetchTally
    }

    private static let window = Duration.seconds(10)
    /// The minimum time between two samples.
    private static let spacing = Duration.milliseconds(250)

    private var samples: [Sample]

    /// Starts the measurement.
    /// - Parameter now: the time on a monotonic clock.
    init(_ tally: PrefetchTally, at now: Duration) {
        samples = [Sample(at: now, tally: tally)]
    }

    /// Records the current progress.
    mutating func note(_ tally: PrefetchTally, at now: Duration) {
        // Keep one sample that is at least as old as the window, so that the samples span the whole window.
        while samples.count > 1, now - samples[1].at >= Self.window { samples.removeFirst() }
        if samples.count > 1, samples[samples.count - 1].at - samples[samples.count - 2].at < Self.spacing {
            samples.removeLast()
        }
        samples.append(Sample(at: now, tally: tally))
    }

    /// The rate in bytes per second; 0 if it is not known yet.
    var bytesPerSecond: Int { Int(clamping: Int64(pace(\.bytes).rounded())) }

    /// The estimated time, in milliseconds, until every image is done or has failed; nil if no image was done or failed
    /// within the last ten seconds.
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

/// The progress of a prefetch.
struct PrefetchTally: Equatable {
    /// The number of images that are in the cache: those that were downloaded and those that were already cached.
    var done = 0
    /// The number of images that could not be cached.
    var failed = 0
    /// Bytes downloaded for the images.
    var bytes = 0
    /// The number of requested images.
    var total: Int

    /// The number of images that are done or have failed.
    var settled: Int { done + failed }

    /// The percentage of images that are done or have failed. It is rounded down, so 100 means that all of them are.
    var percent: Int { total > 0 ? settled * 100 / total : 100 }
}
