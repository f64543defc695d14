import Glibc

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
