import Glibc

/// An open file that is closed when the value goes out of scope.
package struct Descriptor: ~Copyable {
    package let number: CInt

    /// Opens a file for reading (open(2)).
    ///
    /// - Parameters:
    ///   - name: the name, ending with 0
    ///   - directory: the directory that a relative name starts from; nil for the working directory
    package init(_ name: [CChar], in directory: CInt? = nil, flags: CInt) throws(Errno) {
        // O_NONBLOCK: the open of a FIFO would otherwise block the thread until another process writes to it.
        let result = uninterrupted {
            openat(directory ?? AT_FDCWD, name, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        }
        guard result >= 0 else { throw .current }
        number = result
    }

    deinit { close(number) }
}
