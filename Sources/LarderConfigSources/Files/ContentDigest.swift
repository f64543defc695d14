import Crypto
import LarderEncoding

/// A digest of the names and contents of files.
///
/// The times of the files would be cheaper but prove little: the kernel updates the clock for them every few milliseconds (some file
/// systems every two seconds), and a file that is written twice within that time has the same times.
package struct ContentDigest: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    init(of files: [(name: String, bytes: [UInt8])]) {
        var hash = SHA256()
        // Larder 0.1 composed several files to one patch. Another digest makes a new version read them again.
        if files.count > 1 { hash.update(data: Array("composed to two patches".utf8)) }
        for (name, bytes) in files {
            // The length before each part makes the parts unambiguous.
            for part in [Array(name.utf8), bytes] {
                withUnsafeBytes(of: part.count) { hash.update(bufferPointer: $0) }
                hash.update(data: part)
            }
        }
        digest = Array(hash.finalize())
    }

    /// `sha256:` and 64 hexadecimal digits.
    package var description: String { "sha256:" + digest.hex }
}
