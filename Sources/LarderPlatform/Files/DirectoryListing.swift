import Glibc

/// Reads the names in directories. They come in no order and without `.` and `..`. Names are bytes: they need not be UTF-8.
package enum DirectoryListing {
    /// Reads an open directory, which stays open and keeps its position.
    package static func names(in directory: CInt) throws(Errno) -> [[UInt8]] {
        // A descriptor of its own: closedir(3) closes it, and duplicates would share their position.
        let own = uninterrupted { openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard own >= 0 else { throw .current }
        return try names(closing: own)
    }

    /// Reads an open directory from its position, and closes it.
    package static func names(closing directory: CInt) throws(Errno) -> [[UInt8]] {
        guard let stream = fdopendir(directory) else {
            let error = Errno.current
            close(directory)
            throw error
        }
        defer { closedir(stream) }
        var names: [[UInt8]] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                // readdir(3) leaves errno alone at the end. An error must not pass for the end: the caller would miss names.
                if errno != 0 { throw .current }
                return names
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            if name != [0x2e] && name != [0x2e, 0x2e] { names.append(name) }
        }
    }
}
