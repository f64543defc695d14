import LarderConfig
import LarderConfigModel
import LarderProtocol
import LarderSnapshotFile
import Synchronization

/// A snapshot of a namespace as a file whose descriptor is passed to clients.
struct OpenedSnapshot: Sendable {
    let revision: Int
    /// The length of the file in bytes.
    let byteCount: Int
    let file: PassedFile
}

/// The files of the current snapshots. A file is created for the first request and passed to all clients that request
/// it. The agent releases the file when a newer snapshot is published; clients may keep their descriptors indefinitely.
final class SnapshotFiles: Sendable {
    /// Files of documents up to this size in bytes are created on the event loop, which takes about a millisecond.
    /// Larger ones are created by a task.
    static let maxInlineBytes = 256 << 10

    private typealias Creation = Task<Result<OpenedSnapshot, WireError>, Never>

    private enum FileState {
        case created(OpenedSnapshot)
        /// The file is being created. At most one file of a namespace is created at a time.
        case creating(Creation)
    }

    /// Keyed by the identity of the publication. The task that releases a file retains the publication, so the identity
    /// is not reused before the file is released.
    /// The event loops, and the tasks that create or release files, share it.
    private let states = Mutex<[ObjectIdentifier: FileState]>([:])

    /// The number of files that the agent keeps open, without those that are still being created.
    var count: Int {
        states.withLock { states in
            states.values.count { if case .created = $0 { true } else { false } }
        }
    }

    /// Returns the file of the current snapshot if it exists, or if the snapshot is small enough to create the file in
    /// this call. Returns nil otherwise; use ``file(_:)`` then.
    /// - Throws: `limitExceeded` if the file cannot be created
    func immediateFile(_ publication: ConfigPublication) throws(WireError) -> OpenedSnapshot? {
        let snapshot = publication.current.snapshot
        // The file is created under the lock, so that only one of several event loops creates it.
        let (opened, isNew) = try states.withLock { states throws(WireError) -> (OpenedSnapshot?, Bool) in
            switch states[ObjectIdentifier(publication)] {
            case .created(let opened) where opened.revision >= snapshot.revision: return (opened, false)
            case .creating: return (nil, false)
            default:
                guard snapshot.bytes <= Self.maxInlineBytes else { return (nil, false) }
                let opened = try Self.create(snapshot, of: publication)
                states[ObjectIdentifier(publication)] = .created(opened)
                return (opened, true)
            }
        }
        if let opened, isNew { release(opened, after: publication) }
        return opened
    }

    /// Returns the file of the current snapshot or of a newer one, once it has been created.
    /// - Throws: `limitExceeded` if the file cannot be created
    func file(_ publication: ConfigPublication) async throws(WireError) -> OpenedSnapshot {
        let wanted = publication.current.snapshot.revision
        while true {
            let (existing, creating) = states.withLock { states -> (OpenedSnapshot?, Creation?) in
                switch states[ObjectIdentifier(publication)] {
                case .created(let opened) where opened.revision >= wanted: return (opened, nil)
                case .creating(let creating): return (nil, creating)
                default:
                    let creating = Task { await self.create(publication) }
                    states[ObjectIdentifier(publication)] = .creating(creating)
                    return (nil, creating)
                }
            }
            if let existing { return existing }
            guard let opened = try await creating?.value.get() else { continue }
            // The file may be older than the requested revision, because its creation may have begun before this call.
            if opened.revision >= wanted { return opened }
        }
    }

    @concurrent
    private func create(_ publication: ConfigPublication) async -> Result<OpenedSnapshot, WireError> {
        let result = Result { () throws(WireError) in
            try Self.create(publication.current.snapshot, of: publication)
        }
        let opened = try? result.get()
        states.withLock { $0[ObjectIdentifier(publication)] = opened.map(FileState.created) }
        if let opened { release(opened, after: publication) }
        return result
    }

    /// Releases a file when a newer snapshot is published or the namespace ends.
    private func release(_ opened: OpenedSnapshot, after publication: ConfigPublication) {
        let revision = opened.revision
        Task { [weak self] in
            for await snapshot in publication.snapshots() where snapshot.revision > revision { break }
            self?.states.withLock { states in
                guard case .created(let existing) = states[ObjectIdentifier(publication)], existing.revision == revision
                else { return }
                states[ObjectIdentifier(publication)] = nil
            }
        }
    }

    private static func create(
        _ snapshot: ConfigSnapshot, of publication: ConfigPublication
    ) throws(WireError) -> OpenedSnapshot {
        do throws(SnapshotFileError) {
            let file = try SnapshotFileWriter.file(
                of: snapshot.value, revision: snapshot.revision, epoch: publication.epoch,
                name: "larder \(publication.namespace) \(snapshot.revision)")
            return OpenedSnapshot(revision: snapshot.revision, byteCount: file.byteCount, file: PassedFile(file))
        } catch {
            throw WireError(.limitExceeded, "\(error.reason); use config.get, which needs no file")
        }
    }
}
