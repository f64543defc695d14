internal import Crypto

/// Stands for one content of a file: equal stamps mean equal bytes, whatever the file's name, place and times are.
///
/// The times of a file would be cheaper, but they prove little: the kernel's clock for them ticks every few milliseconds
/// (some file systems' every two seconds), and a file that is written twice within a tick looks the same after both.
public struct FileStamp: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    init(of bytes: [UInt8]) { digest = Array(SHA256.hash(data: bytes)) }

    /// `sha256:` and 64 hexadecimal digits.
    public var description: String {
        digest.reduce(into: "sha256:") { text, byte in
            text += (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }
}
