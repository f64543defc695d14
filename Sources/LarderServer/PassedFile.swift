import LarderImages
import SnapshotFile

/// An open file that travels to clients with the first byte of a line (unix(7), `SCM_RIGHTS`). It stays open as long as it
/// is referenced, at least until it is on its way.
final class PassedFile: Sendable {
    /// What is passed.
    let descriptor: CInt
    /// Closes the descriptor when it goes.
    private let owner: any Sendable

    /// An image's file; nil for one that is no file of the system's.
    init?(_ blob: BlobFile) {
        guard let descriptor = blob.descriptor else { return nil }
        (self.descriptor, owner) = (descriptor, blob)
    }

    /// A snapshot's file.
    init(_ file: SealedFile) { (descriptor, owner) = (file.descriptor, file) }
}
