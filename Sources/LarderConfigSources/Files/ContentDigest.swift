import LarderDigest
import LarderEncoding

/// A digest of the names and contents of files.
///
/// Modification times would be cheaper, but they are not reliable. The kernel updates their clock only every few
/// milliseconds (on some file systems every two seconds), so two writes within that time have equal times.
package struct ContentDigest: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    init(of files: [(name: String, bytes: [UInt8])]) {
        var hash = SHA256()
        // Larder 0.1 composed several files into one patch, later versions into two. The prefix makes the digest differ
        // from that of 0.1, so that the files are read again after an update.
        if files.count > 1 { hash.update("composed to two patches".utf8) }
        for (name, bytes) in files {
            // The length before each part ensures that different files never produce the same input to the hash.
            for part in [Array(name.utf8), bytes] {
                withUnsafeBytes(of: part.count) { hash.update($0) }
                hash.update(part)
            }
        }
        digest = hash.finalize()
    }

    /// `sha256:` and 64 hexadecimal digits.
    package var description: String { "sha256:" + digest.hex }
}
