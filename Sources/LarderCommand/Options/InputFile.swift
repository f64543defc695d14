import Glibc

/// An open file that a command reads.
final class InputFile: Sendable {
    let descriptor: CInt

    /// Opens a file.
    /// - Parameter name: its path; `-` is standard input.
    init(_ name: String) throws(Failure) {
        descriptor = name == "-" ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC)
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0 else { throw Input.failure(name) }
        if status.st_mode & S_IFMT == S_IFDIR {
            errno = EISDIR
            throw Input.failure(name)
        }
    }

    deinit { if descriptor > STDIN_FILENO { close(descriptor) } }
}
