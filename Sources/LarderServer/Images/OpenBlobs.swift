import LarderImages
import NIOCore

/// Files that were opened to be passed to clients, so that one which many ask for is opened once. One for each event loop.
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

    /// A file that is open.
    subscript(digest: BlobDigest) -> BlobFile? { entries[digest]?.file }

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
