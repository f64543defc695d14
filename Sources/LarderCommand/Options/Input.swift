import Glibc
import LarderEncoding

enum Input {
    /// Reads a file to its end; `-` is standard input.
    static func contents(of name: String) throws(Failure) -> [UInt8] {
        let file = try InputFile(name)
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(file.descriptor, &chunk, chunk.count)
            if count > 0 {
                bytes += chunk[..<count]
            } else if count == 0 {
                return bytes
            } else if errno != EINTR {
                throw failure(name)
            }
        }
    }

    /// Reads a text to its end, without a byte order mark; `-` is standard input.
    static func text(of name: String) throws(Failure) -> [UInt8] { ByteOrderMark.dropped(from: try contents(of: name)) }

    /// The current directory; nil if it no longer exists.
    static var currentDirectory: String? {
        guard let directory = getcwd(nil, 0) else { return nil }
        defer { free(directory) }
        return String(cString: directory)
    }

    static func failure(_ name: String) -> Failure {
        Failure(.failure, "cannot read \(displayName(name)): \(String(cString: strerror(errno)))")
    }

    /// The name of a file for messages.
    static func displayName(_ name: String) -> String { name == "-" ? "standard input" : name.printable }
}

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
