import Glibc

/// The error number of a failed system call (errno(3)).
package struct Errno: Error, Sendable, Hashable, CustomStringConvertible {
    package let number: CInt

    package init(number: CInt) { self.number = number }

    /// The error of the system call that just failed on this thread.
    package static var current: Errno { Errno(number: errno) }

    /// The system's text for the number. strerror(3) is thread-safe since glibc 2.32.
    package var description: String { String(cString: strerror(number)) }
}
