import Glibc

/// Reads the names in a directory, in no particular order and without `.` and `..`. Names are bytes and need not be
/// UTF-8.
package enum DirectoryListing {
    /// Reads all names in an open directory. The descriptor stays open, and its position does not change.
    package static func names(in directory: CInt) throws(Errno) -> [[UInt8]] {
        // The directory is opened again, because closedir(3) would close the caller's descriptor, and a duplicate of
        // that descriptor would share its position.
        let own = uninterrupted { openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard own >= 0 else { throw .current }
        return try names(closing: own)
    }

    /// Reads the names from the current position of an open directory to its end, and closes the descriptor.
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
                // nil means the end of the directory if errno is unchanged, otherwise an error (readdir(3)). If an
                // error were taken for the end, the caller would miss names.
                if errno != 0 { throw .current }
                return names
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            if name != [0x2e] && name != [0x2e, 0x2e] { names.append(name) }
        }
    }
}

/// Removes a file, or a directory with its contents, if it exists. Symbolic links are removed, not followed.
package func removeTree(_ path: String) throws(Errno) {
    if unlink(path) == 0 || errno == ENOENT { return }
    guard errno == EISDIR || errno == EPERM else { throw .current }
    let directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard directory >= 0 else { throw .current }
    for name in try DirectoryListing.names(closing: directory) {
        try removeTree(path + "/" + String(decoding: name, as: UTF8.self))
    }
    guard rmdir(path) == 0 else { throw .current }
}
