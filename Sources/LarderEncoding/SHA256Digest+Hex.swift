package import Crypto

extension SHA256Digest {
    /// The digest as 64 lowercase hexadecimal digits.
    package var hex: String { withUnsafeBytes { $0.hex } }
}
