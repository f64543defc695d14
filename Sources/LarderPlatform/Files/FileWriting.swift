import Glibc

/// Writes all bytes, with as many system calls as necessary.
///
/// - Parameter offset: the offset in the file (pwrite(2)); nil to write at the current position (write(2))
package func writeAll(_ bytes: [UInt8], to descriptor: CInt, at offset: Int? = nil) throws(Errno) {
    let failure = bytes.withUnsafeBytes { bytes -> Errno? in
        var written = 0
        while written < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
            let count = uninterrupted {
                if let offset { return pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written)) }
                return write(descriptor, rest.baseAddress, rest.count)
            }
            guard count > 0 else { return count == 0 ? Errno(number: EIO) : .current }
            written += count
        }
        return nil
    }
    if let failure { throw failure }
}
