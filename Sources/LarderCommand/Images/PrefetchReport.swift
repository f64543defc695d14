import JSON
import LarderClient

/// What a prefetch came to, over all portions.
struct PrefetchReport {
    /// The sum of all portions.
    private(set) var result: ImagePrefetch.Result
    /// What images without a URL are counted by.
    private let place: PrefetchList.Place

    /// Begins with what failed before anything was asked for.
    init(_ list: PrefetchList) {
        place = list.place
        let failures = list.failures
        result = ImagePrefetch.Result(
            total: failures.count, fetched: 0, held: 0, failed: failures.count, bytes: 0,
            failures: Array(failures.prefix(ImagePrefetch.Result.mostFailures)),
            failuresOmitted: max(0, failures.count - ImagePrefetch.Result.mostFailures))
    }

    /// Takes the result of one more portion.
    mutating func add(_ portion: ImagePrefetch.Result) {
        result.total += portion.total
        result.fetched += portion.fetched
        result.held += portion.held
        result.failed += portion.failed
        result.bytes += portion.bytes
        result.failures += portion.failures
        result.failuresOmitted += portion.failuresOmitted
    }

    /// As one line of JSON, the way the protocol tells a single portion.
    var json: String { JSONValue.building { result.write(to: &$0) }.compactText }

    /// For people: one line, and one more for each failure. Without the last line end.
    func text(milliseconds: Int) -> String {
        let parts = [
            "\(result.fetched) fetched (\(Human.bytes(result.bytes)))", "\(result.held) held already",
            "\(result.failed) failed",
        ]
        var lines = [
            "\(Human.count(result.total, "image", "images")) in \(Human.elapsed(milliseconds: milliseconds)): "
                + parts.joined(separator: ", ")
        ]
        lines += result.failures.map { failure in
            let image = failure.url ?? failure.line.map { "\(place) \($0)" } ?? "?"
            return "  \(image.printable)  \(failure.error.description.printable)"
        }
        if result.failuresOmitted > 0 { lines.append("  and \(result.failuresOmitted) more") }
        return lines.joined(separator: "\n")
    }
}
