import LarderJSON
import LarderClientCore

/// The result of a prefetch: the sums over all requests, and the refused lines or elements of the list.
struct PrefetchReport {
    /// The counts of images. `total` and `failed` include the refused lines or elements of the list; `failures`
    /// contains only failures that the agent reported.
    private(set) var result: ImagePrefetch.Result
    private let unit: PrefetchList.Unit
    private let refusals: [PrefetchList.Refusal]

    init(_ list: PrefetchList) {
        unit = list.unit
        refusals = list.refusals
        let count = refusals.count
        result = ImagePrefetch.Result(total: count, fetched: 0, held: 0, failed: count, bytes: 0, failures: [])
    }

    /// Adds the result of one request, which contained a portion of the images.
    mutating func add(_ portion: ImagePrefetch.Result) {
        result.total += portion.total
        result.fetched += portion.fetched
        result.held += portion.held
        result.failed += portion.failed
        result.bytes += portion.bytes
        result.failures += portion.failures
        result.failuresOmitted += portion.failuresOmitted
    }

    /// One line of JSON: the result as in the protocol, and the refused lines or elements as `refused`.
    var json: String {
        JSONValue.building { writer in
            writer.beginObject()
            for (name, value) in JSONValue.building({ result.write(to: &$0) }).members {
                writer.name(name)
                writer.value(value)
            }
            writer.name("refused")
            writer.beginArray()
            for refusal in refusals {
                writer.beginObject()
                switch unit {
                case .line: writer.member("line", refusal.number)
                case .element: writer.member("element", refusal.number)
                }
                writer.member("detail", refusal.reason)
                writer.endObject()
            }
            writer.endArray()
            writer.endObject()
        }.compactText
    }

    /// The result for people: a line with the counts, and a line for each failure that the agent reported, without a
    /// final line end.
    func text(milliseconds: Int) -> String {
        var failed = "\(result.failed) failed"
        if !refusals.isEmpty {
            failed += " (\(Human.count(refusals.count, unit.rawValue, unit.rawValue + "s")) refused)"
        }
        let parts = [
            "\(result.fetched) downloaded (\(Human.bytes(result.bytes)))", "\(result.held) already cached", failed,
        ]
        var lines = [
            "\(Human.count(result.total, "image", "images")) in \(Human.elapsed(milliseconds: milliseconds)): "
                + parts.joined(separator: ", ")
        ]
        lines += result.failures.map { "  \($0.url.printable)  \($0.error.description.printable)" }
        if result.failuresOmitted > 0 { lines.append("  and \(result.failuresOmitted) more") }
        return lines.joined(separator: "\n")
    }
}
