/// How many snapshots of a namespace are kept.
///
/// The history has the newest ``recent`` snapshots, the last one of each hour for a day, and the last one of each day
/// for ``days`` days. If ``count`` or ``maximumBytes`` does not allow all of these, newer snapshots take precedence.
/// The current snapshot and pinned ones are always kept.
package struct HistoryLimits: Sendable, Equatable {
    /// The number of newest snapshots that are kept regardless of their age.
    package static let recent = 16

    /// The maximum number of snapshots, not counting pinned ones.
    package var count: Int
    /// The number of days for which the last snapshot of each day is kept.
    package var days: Int
    /// The maximum total size of the files in bytes. Pinned files may take half of it.
    package var maximumBytes: Int

    package init(count: Int = 64, days: Int = 30, maximumBytes: Int = 16 << 20) {
        self.count = count
        self.days = days
        self.maximumBytes = maximumBytes
    }

    /// The file of a snapshot.
    package struct File: Sendable, Equatable {
        package var revision: Int
        /// In milliseconds since 1970.
        package var publishedAt: Int
        package var bytes: Int
        package var isPinned = false

        package init(revision: Int, publishedAt: Int, bytes: Int, isPinned: Bool = false) {
            self.revision = revision
            self.publishedAt = publishedAt
            self.bytes = bytes
            self.isPinned = isPinned
        }
    }

    private static let hour = 3_600_000
    private static let day = 24 * hour

    /// The revisions to keep. Hours and days are those of UTC. Ages are relative to the newest snapshot.
    /// - Parameter files: newest first
    package func kept(of files: [File]) -> Set<Int> {
        guard let newest = files.first else { return [] }
        let isAlwaysKept = { (file: File) in file.isPinned || file.revision == newest.revision }
        var kept = Set(files.filter(isAlwaysKept).map(\.revision))
        var bytes = files.filter(isAlwaysKept).reduce(0) { $0 + $1.bytes }
        var unpinned = newest.isPinned ? 0 : 1
        for (index, file) in files.enumerated() where !isAlwaysKept(file) {
            let age = newest.publishedAt - file.publishedAt
            let next = files[index - 1].publishedAt
            let isWanted =
                index < Self.recent
                || age < Self.day && file.publishedAt / Self.hour != next / Self.hour
                || age < days * Self.day && file.publishedAt / Self.day != next / Self.day
            guard isWanted, unpinned < count, bytes + file.bytes <= maximumBytes else { continue }
            kept.insert(file.revision)
            unpinned += 1
            bytes += file.bytes
        }
        return kept
    }
}
