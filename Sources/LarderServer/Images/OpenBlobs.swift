import LarderImages
import NIOCore

/// Files that were passed to clients and are kept open for a while, so that one which many ask for can be opened again on
/// the event loop: what is open is in memory, and open(2) of it never waits for the disk. One for each event loop.
///
/// Each client gets a file that was opened for it alone. Descriptors of one open(2) share their position, and two clients
/// that read would take the bytes from each other.
///
/// A file that is open keeps its place on the disk also after the image was removed. So none stays open for long.
final class OpenBlobs {
    /// The most files.
    static let most = 32
    /// How long a file stays open after it was opened: as much longer may its place on the disk be taken.
    static let time = TimeAmount.seconds(1)

    private struct Entry {
        let file: BlobFile
        let opened: NIODeadline
    }

    private let eventLoop: any EventLoop
    private var entries: [BlobDigest: Entry] = [:]
    private var isWatched = false

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// How many files are open.
    var count: Int { entries.count }

    /// Whether a blob's file is open.
    func isOpen(_ digest: BlobDigest) -> Bool { entries[digest] != nil }

    /// Keeps a file open for a while.
    func keep(_ file: BlobFile, _ digest: BlobDigest) {
        if entries.count >= Self.most, let oldest = entries.min(by: { $0.value.opened < $1.value.opened }) {
            entries[oldest.key] = nil
        }
        entries[digest] = Entry(file: file, opened: eventLoop.now)
        watch()
    }

    private func watch() {
        guard !isWatched, let oldest = entries.values.map(\.opened).min() else { return }
        isWatched = true
        eventLoop.assumeIsolated().scheduleTask(deadline: oldest + Self.time) {
            self.isWatched = false
            let now = self.eventLoop.now
            self.entries = self.entries.filter { $0.value.opened + Self.time > now }
            self.watch()
        }
    }
}
