import Glibc

/// The error number of a system call that failed (errno(3)).
package struct Errno: Error, Sendable, Hashable, CustomStringConvertible {
    package let number: CInt

    package init(number: CInt) { self.number = number }

    /// The error of the call that failed just now on this thread.
    package static var current: Errno { Errno(number: errno) }

    /// The text of the system for the number. strerror(3) of glibc is safe for threads since 2.32.
    package var description: String { String(cString: strerror(number)) }
}
