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
