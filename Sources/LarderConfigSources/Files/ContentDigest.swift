import Crypto
import LarderEncoding

/// Stands for one content of a file: equal stamps mean equal bytes, whatever the file's name, place and times are.
///
/// The times of a file would be cheaper, but they prove little: the kernel's clock for them ticks every few milliseconds
/// (some file systems' every two seconds), and a file that is written twice within a tick looks the same after both.
package struct ContentDigest: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    /// Stands for the names and contents of several files.
    init(of files: [(name: String, bytes: [UInt8])]) {
        var hash = SHA256()
        // Larder 0.1 composed several files to one patch. With another stamp they are read again.
        if files.count > 1 { hash.update(data: Array("composed to two patches".utf8)) }
        for (name, bytes) in files {
            // With its length before it, nothing can be taken for a part of what comes before or after.
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
