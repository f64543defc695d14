package import LarderConfigModel

/// One of the newest snapshots, as the history shows it.
package struct PastSnapshot: Sendable {
    package var revision: Int
    /// SHA-256 of its compact text, in lowercase hex.
    package var digest: String
    /// The length of that text.
    package var bytes: Int
    /// When it was published, in milliseconds since 1970.
    package var publishedAt: Int
    /// The upstream version of the remote document that it was published with; nil if that had none.
    package var upstreamVersion: String?
    /// Why it was published; empty if an older version of this program published it.
    package var causes: [ChangeCause]
    /// Whether it is kept until it is unpinned.
    package var isPinned = false
}

/// A snapshot as a file of the state directory.
package struct SavedGeneration: Sendable {
    package var revision: Int
    /// The content of the file; nil as long as nothing was published.
    package var text: String?
    /// The revisions of the history, newest first.
    package var revisions: [Int]
    package var isPinned = false
}

/// Where the generations are that precede the start.
enum OlderGenerations {
    /// On disk, in these files, newest first.
    case inFiles([String])
    /// A caller has asked for them, and they are being read.
    case beingRead(Task<[Generation], Never>)
    case inHistory
}
