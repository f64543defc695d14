import LarderClientCore

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
            ("downloads", "\(images.flights) running, \(images.queued) queued"),
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
