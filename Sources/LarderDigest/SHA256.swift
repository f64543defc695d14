internal import CNettle

/// Computes the SHA-256 (FIPS 180-4) of bytes with the system's Nettle library.
package struct SHA256: Sendable {
    /// The number of bytes of a digest.
    package static let byteCount = 32

    private var context = sha256_ctx()

    package init() { nettle_sha256_init(&context) }

    /// The digest of `bytes`.
    @inlinable
    package static func hash(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finalize()
    }

    /// Appends bytes to the input.
    @inlinable
    package mutating func update(_ bytes: some Sequence<UInt8>) {
        let isDone: Void? = bytes.withContiguousStorageIfAvailable { update(UnsafeRawBufferPointer($0)) }
        if isDone == nil { Array(bytes).withUnsafeBytes { update($0) } }
    }

    /// Appends bytes to the input.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        nettle_sha256_update(&context, bytes.count, start.assumingMemoryBound(to: UInt8.self))
    }

    /// The digest of the input. More bytes can be appended afterwards.
    package func finalize() -> [UInt8] {
        var context = context
        return [UInt8](unsafeUninitializedCapacity: Self.byteCount) { digest, count in
            nettle_sha256_digest(&context, Self.byteCount, digest.baseAddress)
            count = Self.byteCount
        }
    }
}
