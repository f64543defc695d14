import LarderClientCore

/// The output of `larder image downloads` for people: one line per download.
enum DownloadReport {
    private static let table = TextTable(
        headings: ["ID", "STATE", "RECEIVED", "TOTAL", "DONE", "RATE", "WAITING", "PRIORITY", "URL"],
        figures: [0, 2, 3, 4, 5, 6])

    /// Formats the downloads, without a final line end.
    static func text(_ downloads: [ImageDownloads.Download]) -> String {
        downloads.isEmpty ? "no downloads are in progress" : table.text(downloads.map(row))
    }

    /// Formats the downloads for a terminal: lines are cut at its width. If there are too many for its height, the last
    /// line has the number of the others.
    static func text(_ downloads: [ImageDownloads.Download], columns: Int, rows: Int) -> String {
        let lines = text(downloads).split(separator: "\n").map { String($0.prefix(columns)) }
        let shown = max(2, rows)
        guard lines.count > shown else { return lines.joined(separator: "\n") }
        let rest = Human.count(lines.count - shown + 1, "more download", "more downloads")
        return (lines.prefix(shown - 1) + [rest]).joined(separator: "\n")
    }

    private static func row(_ download: ImageDownloads.Download) -> [String] {
        let isRunning = download.state == .running
        return [
            "\(download.id)", download.state.rawValue.printable, isRunning ? Human.bytes(download.receivedBytes) : "",
            download.totalBytes.map(Human.bytes) ?? "", percent(download) ?? "",
            isRunning ? "\(Human.bytes(download.bytesPerSecond))/s" : "", "\(download.requests)",
            download.priority.rawValue.printable, download.url?.printable ?? "(not permitted)",
        ]
    }

    private static func percent(_ download: ImageDownloads.Download) -> String? {
        guard let total = download.totalBytes, total > 0 else { return nil }
        return "\(Int(Double(download.receivedBytes) / Double(total) * 100)) %"
    }
}
