import Glibc

/// Reads files below /proc, whose size is not known in advance.
enum ProcessFile {
    /// Returns the text of a file; nil if it cannot be read.
    static func text(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }

    /// Returns the number after `label` at the start of a line, as in "Rss:   1234 kB".
    static func number(after label: String, in text: String) -> Int? {
        for line in text.split(separator: "\n") where line.hasPrefix(label) {
            let words = line.dropFirst(label.count).split(whereSeparator: \.isWhitespace)
            return words.first.flatMap { Int($0) }
        }
        return nil
    }
}
