/// The progress of a prefetch as one line of text.
struct ProgressLine {
    let tally: PrefetchTally
    /// The current rate in bytes per second.
    let bytesPerSecond: Int
    /// The estimated remaining time; nil if it cannot be estimated.
    let millisecondsLeft: Int?

    /// The minimum length of the bar. If there is less space, numbers are omitted.
    private static let minBarWidth = 10
    /// The maximum length of the bar.
    private static let maxBarWidth = 50

    /// The line for a file or a pipe: `412 of 1000 images, 41 %, 38 MB, 1.2 MB/s, 1 min 12 s left, 2 failed`.
    var plain: String {
        var parts = [
            "\(tally.settled) of \(Human.count(tally.total, "image", "images"))", "\(tally.percent) %", bytes, rate,
        ]
        if let left { parts.append("\(left) left") }
        if let failed { parts.append(failed) }
        return parts.joined(separator: ", ")
    }

    /// The line for a terminal: numbers, and a bar that takes the remaining width. If there is too little space, the
    /// least important numbers are omitted. The line is never wider than `columns`.
    ///
    /// Numbers that change have a fixed width, so that the bar keeps its length.
    func bar(columns: Int) -> String {
        let count = "\(String(tally.settled).rightAligned(to: String(tally.total).count))/\(tally.total)"
        let percent = "\(tally.percent)%".rightAligned(to: 4)
        // The numbers in display order. If there is too little space, the number with the largest `rank` is omitted
        // first.
        let figures: [(rank: Int, text: String?)] = [
            (0, percent), (2, bytes.rightAligned(to: 6)), (4, rate.rightAligned(to: 8)),
            (1, failed), (3, (left.map { "\($0) left" } ?? "").padded(to: 16)),
        ]
        for rank in stride(from: figures.count - 1, through: 0, by: -1) {
            let end = figures.compactMap { $0.rank <= rank ? $0.text : nil }.joined(separator: "  ")
            // The six columns are the two brackets of the bar, and two spaces on either side of them.
            let room = columns - count.count - end.count - 6
            guard room >= Self.minBarWidth else { continue }
            let line = "\(count)  [\(drawn(min(room, Self.maxBarWidth)))]  \(end)"
            return String(line[...(line.lastIndex { $0 != " " } ?? line.startIndex)])
        }
        return ["\(count) \(percent)", "\(tally.percent)%"].first { $0.count <= columns } ?? ""
    }

    private func drawn(_ width: Int) -> String {
        let full = tally.total > 0 ? tally.settled * width / tally.total : width
        let head = full < width ? ">" : ""
        return String(repeating: "=", count: full) + head + String(repeating: " ", count: width - full - head.count)
    }

    private var bytes: String { Human.bytes(tally.bytes) }
    private var rate: String { "\(Human.bytes(bytesPerSecond))/s" }
    private var left: String? {
        guard tally.settled < tally.total else { return nil }
        return millisecondsLeft.map { Human.span(milliseconds: $0 + 999) }
    }
    private var failed: String? { tally.failed > 0 ? "\(tally.failed) failed" : nil }
}
