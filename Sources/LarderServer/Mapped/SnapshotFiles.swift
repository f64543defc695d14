import LarderConfig
import LarderConfigModel
import LarderProtocol
import LarderSnapshotFile
import Synchronization

/// The current snapshot of a namespace as a file that is passed to clients.
struct OpenedSnapshot: Sendable {
    let revision: Int
    /// The length of the file.
    let byteCount: Int
    let file: PassedFile
}

/// The files of current snapshots. A file is made at the first request, passed to all clients that request it, and released at
/// the next publication. A client keeps its descriptor for any time.
final class SnapshotFiles: Sendable {
    /// The files of documents up to this size are made on the event loop, in about a millisecond; those of larger ones by a
    /// task.
    static let largestHere = 256 << 10

    private typealias Making = Task<Result<OpenedSnapshot, WireError>, Never>

    private enum Holding {
        case made(OpenedSnapshot)
        /// At most one file of a namespace is made at a time.
        case making(Making)
    }

    /// By publication. The task that releases the file retains the publication.
    private let holdings = Mutex<[ObjectIdentifier: Holding]>([:])

    /// How many files are held.
    var count: Int {
        holdings.withLock { holdings in
            holdings.values.count { if case .made = $0 { true } else { false } }
        }
    }

    /// The file of the current snapshot, if it exists or is small; otherwise nil, and ``file(_:)`` waits for it.
    /// - Throws: `limitExceeded`
    func atOnce(_ publication: ConfigPublication) throws(WireError) -> OpenedSnapshot? {
        let snapshot = publication.current.snapshot
        // Under the lock: if two loops need the file, only one makes it.
        let (opened, isNew) = try holdings.withLock { holdings throws(WireError) -> (OpenedSnapshot?, Bool) in
            switch holdings[ObjectIdentifier(publication)] {
            case .made(let opened) where opened.revision >= snapshot.revision: return (opened, false)
            case .making: return (nil, false)
            default:
                guard snapshot.bytes <= Self.largestHere else { return (nil, false) }
                let opened = try Self.make(snapshot, of: publication)
                holdings[ObjectIdentifier(publication)] = .made(opened)
                return (opened, true)
            }
        }
        if let opened, isNew { release(opened, after: publication) }
        return opened
    }

    /// Waits for the file of the current snapshot or of a newer one.
    /// - Throws: `limitExceeded`
    func file(_ publication: ConfigPublication) async throws(WireError) -> OpenedSnapshot {
        let wanted = publication.current.snapshot.revision
        while true {
            let (held, making) = holdings.withLock { holdings -> (OpenedSnapshot?, Making?) in
                switch holdings[ObjectIdentifier(publication)] {
                case .made(let opened) where opened.revision >= wanted: return (opened, nil)
                case .making(let making): return (nil, making)
                default:
                    let making = Task { await self.make(publication) }
                    holdings[ObjectIdentifier(publication)] = .making(making)
                    return (nil, making)
                }
            }
            if let held { return held }
            guard let opened = try await making?.value.get() else { continue }
            // A file that was being made already may have an older revision.
            if opened.revision >= wanted { return opened }
        }
    }

    @concurrent
    private func make(_ publication: ConfigPublication) async -> Result<OpenedSnapshot, WireError> {
        let result: Result<OpenedSnapshot, WireError>
        do throws(WireError) {
            result = .success(try Self.make(publication.current.snapshot, of: publication))
        } catch {
            result = .failure(error)
        }
        let opened = try? result.get()
        holdings.withLock { $0[ObjectIdentifier(publication)] = opened.map(Holding.made) }
        if let opened { release(opened, after: publication) }
        return result
    }

    /// Releases a file when something newer is published, or the namespace ends.
    private func release(_ opened: OpenedSnapshot, after publication: ConfigPublication) {
        let revision = opened.revision
        Task { [weak self] in
            for await snapshot in publication.snapshots() where snapshot.revision > revision { break }
            self?.holdings.withLock { holdings in
                guard case .made(let held) = holdings[ObjectIdentifier(publication)], held.revision == revision
                else { return }
                holdings[ObjectIdentifier(publication)] = nil
            }
        }
    }

    private static func make(
        _ snapshot: ConfigSnapshot, of publication: ConfigPublication
    ) throws(WireError) -> OpenedSnapshot {
        do throws(SnapshotFileError) {
            let file = try SnapshotFileWriter.file(
                of: snapshot.value, revision: snapshot.revision, epoch: publication.epoch,
                name: "larder \(publication.namespace) \(snapshot.revision)")
            return OpenedSnapshot(revision: snapshot.revision, byteCount: file.byteCount, file: PassedFile(file))
        } catch {
            throw WireError(.limitExceeded, "\(error.reason); config.get needs no file")
        }
    }
}
