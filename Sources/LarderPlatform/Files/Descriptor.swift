import Glibc

/// An open file descriptor that is closed when the value is destroyed.
package struct Descriptor: ~Copyable {
    package let number: CInt

    /// Opens a file for reading (open(2)).
    ///
    /// - Parameters:
    ///   - name: the path of the file, with a terminating NUL
    ///   - directory: the directory that a relative name is resolved in; nil for the working directory
    package init(_ name: [CChar], in directory: CInt? = nil, flags: CInt) throws(Errno) {
        // O_NONBLOCK: opening a FIFO would otherwise block the thread until another process opens it for writing.
        let result = uninterrupted {
            openat(directory ?? AT_FDCWD, name, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        }
        guard result >= 0 else { throw .current }
        number = result
    }

    deinit { close(number) }
}
