import Glibc
package import SystemPackage

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

/// Makes a system call and repeats it while it fails with EINTR (signal(7)). On FUSE and network file systems any call
/// on a file may be interrupted, including rename(2) and mkdir(2).
///
/// Do not use this for close(2): the descriptor is closed even if the call is interrupted.
/// - Parameter call: returns a negative value and sets errno if it fails
/// - Returns: the result of the last call. If it failed, errno is the error of that call.
package func uninterrupted<Result: SignedInteger>(_ call: () -> Result) -> Result {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}

/// The standard streams of this process.
package enum StandardStreams {
    /// Opens /dev/null as standard input, output or error, if the process was started without it. Otherwise the next file
    /// that the process opens would get its number, and messages would be written to that file. Must be called first.
    package static func openMissing() {
        for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
            // The lowest free number is used, which is this one.
            _ = open("/dev/null", O_RDWR)
        }
    }
}

extension Errno {
    /// The error of the system call that just failed on this thread (errno(3)).
    package static var current: Errno { Errno(rawValue: errno) }
}

/// Calls a function of swift-system. All its functions on descriptors throw ``Errno``, but are declared with untyped
/// `throws`.
func withErrno<Value>(_ call: () throws -> Value) throws(Errno) -> Value {
    do {
        return try call()
    } catch {
        throw error as? Errno ?? .ioError
    }
}
