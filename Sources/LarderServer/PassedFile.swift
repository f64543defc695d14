import LarderImages
import SnapshotFile

/// An open file that travels to clients with the first byte of a line (unix(7), `SCM_RIGHTS`). It stays open as long as it
/// is referenced, at least until it is on its way.
final class PassedFile: Sendable {
    /// What is passed.
    let descriptor: CInt
    /// Closes the descriptor when it goes.
    private let owner: any Sendable
    /// For whom it is open, where it is for one client only.
    private let usage: UserUsage?

    /// An image's file, which was opened for a client of a user; nil for one that is no file of the system's.
    init?(_ blob: BlobFile, for usage: UserUsage) {
        guard let descriptor = blob.descriptor else { return nil }
        (self.descriptor, owner, self.usage) = (descriptor, blob, usage)
        usage.addFile()
    }

    /// A snapshot's file, which is one for all.
    init(_ file: SealedFile) { (descriptor, owner, usage) = (file.descriptor, file, nil) }

    deinit { usage?.removeFile() }
}
