import LarderClientCore
import LarderEncoding
import LarderProtocol

/// The output of `larder image peek` and `larder image explain` for people.
struct ImageReport {
    let style: Style
    /// The current time, from which ages are computed.
    let now: Timestamp

    /// The cached state of an image, without a final line end.
    func text(_ reference: ImageReference, _ cached: ImagePeek.Cached) -> String {
        ([heading(reference, style.freshness(cached.freshness))] + facts(cached)).joined(separator: "\n")
    }

    /// The decision for a request, the rules that led to it, and the cached state.
    func text(_ reference: ImageReference, _ policy: ImagePolicy, _ result: ImagePeek.Result) -> String {
        var lines = [heading(reference, outcome(result, policy))]
        let rules = result.rules ?? []
        let width = max(Self.labelWidth, (rules.map { $0.name.printable.count }.max() ?? 0) + 2)
        lines += rules.map { "  \($0.name.printable.padded(to: width))\($0.text.printable)" }
        if let cached = result.cached {
            lines += [""] + facts(cached, width)
        }
        return lines.joined(separator: "\n")
    }

    private static let labelWidth = 12

    private func heading(_ reference: ImageReference, _ text: String) -> String {
        let key = reference.cacheKey.map { "  key \($0)" } ?? ""
        return "\(style.strong((reference.url + key).printable))  \(text)"
    }

    private func outcome(_ result: ImagePeek.Result, _ policy: ImagePolicy) -> String {
        let behind = result.revalidates ? "; revalidated in the background" : ""
        // The rule `failure` means that a download failed recently. For some time the agent then does not contact the
        // origin, except with the policy networkOnly.
        if result.decision == .fetch || result.decision == .revalidate, policy != .networkOnly,
            result.rules?.contains(where: { $0.name == "failure" }) == true
        {
            let cached = result.decision == .fetch ? "miss" : "cached"
            return style.problem("\(cached): the origin failed recently and is not contacted again yet")
        }
        return switch result.decision {
        case .fresh: style.good("hit: fresh") + behind
        case .stale: style.warning("hit: stale, but allowed") + behind
        case .revalidate: style.warning("cached: revalidated with the origin before use")
        case .fetch: style.warning("miss: downloaded from the origin")
        case .notCached: style.problem("miss: not cached")
        default: result.decision.rawValue.printable
        }
    }

    private func facts(_ cached: ImagePeek.Cached, _ width: Int = labelWidth) -> [String] {
        let left = cached.expiresAt.map { $0.milliseconds - now.milliseconds }
        let end = left.map { $0 > 0 ? Human.ahead(milliseconds: $0) : Human.ago(milliseconds: -$0) }
        let rows: [(String, String?)] = [
            ("image", ImageText.properties(cached.image)),
            ("digest", cached.image.digest.description),
            ("file", cached.path.printable),
            ("stored", cached.storedAt.ago(at: now)),
            ("used", cached.lastUsedAt.ago(at: now)),
            (left.map { $0 > 0 } ?? true ? "expires" : "expired", end ?? "immediately: each use requires revalidation"),
            ("age", Human.span(milliseconds: cached.ageSeconds * 1000)),
            ("pinned", cached.isPinned ? "yes" : nil),
        ]
        return rows.compactMap { label, text in text.map { "  \(label.padded(to: width))\($0)" } }
    }
}

/// Short descriptions of images.
enum ImageText {
    /// `image/png, 640×480, 38 kB`
    static func properties(_ image: WireImage) -> String {
        [image.mediaType.printable, pixels(image), Human.bytes(image.bytes)].compactMap(\.self).joined(separator: ", ")
    }

    /// `640×480`; nil for an SVG without a size.
    static func pixels(_ image: WireImage) -> String? {
        image.width > 0 && image.height > 0 ? "\(image.width)×\(image.height)" : nil
    }
}

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
            entry.freshness.rawValue.printable, entry.isPinned ? "pin" : "", entry.storedAt.ago(at: now),
            entry.lastUsedAt.ago(at: now),
            "\(entry.reference.url)\(key)".printable,
        ]
    }
}

/// The output of `larder image stats` for people.
enum ImageStatsReport {
    /// The report without a final line end.
    static func text(_ images: AgentStats.Images) -> String {
        let rows: [(String, String)] = [
            ("cached", "\(Human.count(images.entries, "image", "images")) of \(images.maximumImages)"),
            ("disk", bytes(images)), ("index", Human.bytes(images.indexBytes)),
            ("requests", answers(images)),
            ("revalidated", Human.count(images.revalidations, "image", "images")),
            ("downloaded", Human.bytes(images.downloadedBytes)),
            ("evicted", Human.count(images.evictions, "image", "images")),
            ("downloads", "\(images.activeDownloads) running, \(images.queued) queued"),
        ]
        return rows.map { "\($0.0.padded(to: 13))\($0.1)" }.joined(separator: "\n")
    }

    /// The number of images, and the disk usage of images and index, in one line.
    static func diskUse(_ images: AgentStats.Images) -> String {
        "\(Human.count(images.entries, "image", "images")), \(bytes(images)); index \(Human.bytes(images.indexBytes))"
    }

    private static func bytes(_ images: AgentStats.Images) -> String {
        let share = images.maximumBytes > 0 ? ", \(images.bytes * 100 / images.maximumBytes) %" : ""
        let more = [
            images.reservedBytes > 0 ? "\(Human.bytes(images.reservedBytes)) reserved" : nil,
            images.leasedBytes > 0 ? "\(Human.bytes(images.leasedBytes)) of removed images in use" : nil,
        ].compactMap(\.self).map { ", \($0)" }.joined()
        return "\(Human.bytes(images.bytes)) of \(Human.bytes(images.maximumBytes))\(share)\(more)"
    }

    private static func answers(_ images: AgentStats.Images) -> String {
        let answered = images.hits + images.misses + images.joined
        let share = answered > 0 ? " (\(images.hits * 100 / answered) %)" : ""
        return "\(Human.count(images.hits, "hit", "hits"))\(share), \(Human.count(images.misses, "miss", "misses")), "
            + "\(images.joined) joined, \(images.staleAnswers) stale, "
            + Human.count(images.failures, "failure", "failures")
    }
}

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
