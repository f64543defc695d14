import Glibc
internal import LarderPlatform
internal import LarderUpstream

/// The files of the index, and the check of their version.
enum IndexFormat {
    static let index = "index.sqlite"
    static let copy = "index-copy.sqlite"

    /// Checks that the index and its copy are regular files and were not written by a newer agent. Changes nothing.
    ///
    /// - Throws: ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``
    static func refuseNewer(in directory: String) throws(ImageError) {
        for name in [index, copy] {
            guard let version = try version(ofFile: directory + "/" + name), version > IndexDatabase.version else {
                continue
            }
            throw newer(name, version, directory)
        }
    }

    static func newer(_ name: String, _ version: Int, _ directory: String) -> ImageError {
        ImageError(
            .newerIndex,
            "\"\(directory)/\(name)\" has format \(version), and this agent reads format \(IndexDatabase.version) or older; install the newer agent again, or set cache.directory to another directory"
        )
    }

    /// The version in the header of an SQLite database (sqlite.org/fileformat2.html, section 1.3.12). Nil if the file
    /// does not exist, is shorter than the header, or is not a database.
    private static func version(ofFile path: String) throws(ImageError) -> Int? {
        // O_NONBLOCK, because a FIFO without a writer must not block the start.
        let file = uninterrupted { open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) }
        if file < 0, errno != ELOOP { return nil }
        defer { if file >= 0 { close(file) } }
        var status = stat()
        guard file >= 0, fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw ImageError(.storageFailed, "\"\(path)\" is not a regular file; remove it and restart the agent")
        }
        var header = [UInt8](repeating: 0, count: 64)
        let count = header.withUnsafeMutableBytes { bytes in
            uninterrupted { pread(file, bytes.baseAddress, bytes.count, 0) }
        }
        guard count == header.count, header.starts(with: "SQLite format 3\0".utf8) else { return nil }
        return header[60..<64].reduce(0) { $0 << 8 | Int($1) }
    }
}
