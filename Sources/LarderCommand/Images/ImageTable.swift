import LarderClientCore

/// The output of `larder image ls` for people: one line per image, printed page by page, so that a long list starts at
/// once.
struct ImageTable {
    /// The current time, from which ages are computed.
    let now: Timestamp

    private var isFirstPage = true

    /// The URL comes last, because its length varies most. The other columns are wide enough for common values, so that
    /// all pages are aligned.
    private static let headings = ["TYPE", "PIXELS", "SIZE", "STATE", "PIN", "STORED", "USED", "URL"]
    private static let widths = [10, 9, 6, 5, 3, 14, 14, 0]
    private static let figures: Set<Int> = [1, 2]

    init(now: Timestamp) { self.now = now }

    /// Formats the next page, without a final line end; nil if there is nothing to print.
    mutating func text(_ images: [ImageList.Entry]) -> String? {
        var rows = images.map(row)
        if isFirstPage { rows.insert(Self.headings, at: 0) }
        isFirstPage = false
        return rows.isEmpty ? nil : TextTable.text(rows, figures: Self.figures, minWidths: Self.widths)
    }

    private func row(_ entry: ImageList.Entry) -> [String] {
        let key = entry.reference.cacheKey.map { "  key \($0)" } ?? ""
        return [
            entry.image.mediaType.printable, ImageText.pixels(entry.image) ?? "", Human.bytes(entry.image.bytes),
            entry.freshness.rawValue.printable, entry.isPinned ? "pin" : "", ago(entry.storedAt), ago(entry.lastUsedAt),
            "\(entry.reference.url)\(key)".printable,
        ]
    }

    private func ago(_ time: Timestamp) -> String {
        Human.ago(milliseconds: now.milliseconds - time.milliseconds)
    }
}
