internal import CLinuxShims
import Glibc
package import SystemPackage

/// Opens files below a directory and nowhere else. Rejects paths that contain "..", absolute paths, and symbolic links
/// anywhere in the path.
package enum OpenBeneath {
    /// Opens `name` with O_CLOEXEC. Opens each directory in the path separately, without following symbolic links.
    ///
    /// A single openat2(2) call could do the same, but it fails under `RestrictSUIDSGID=` (systemd.exec(5)), which the
    /// packaged unit sets.
    /// - Returns: the descriptor, or -1 with errno set
    package static func open(_ directory: CInt, _ name: String, _ flags: CInt, mode: UInt32 = 0) -> CInt {
        let steps = name.split(separator: "/", omittingEmptySubsequences: false)
        // "." alone is the directory itself.
        guard name == "." || !steps.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
            errno = EXDEV
            return -1
        }
        var place = directory
        for step in steps.dropLast() {
            let next = uninterrupted { openat(place, String(step), placeFlags | O_NOFOLLOW) }
            leave(place, directory)
            if next < 0 { return -1 }
            place = next
        }
        let result = uninterrupted {
            openat(place, String(steps[steps.count - 1]), flags | O_NOFOLLOW | O_CLOEXEC, mode)
        }
        leave(place, directory)
        return result
    }

    /// Flags to open a directory only as the starting point of openat(2). This does not require permission to read the
    /// directory.
    package static let placeFlags = CInt(LARDER_O_PATH) | O_DIRECTORY | O_CLOEXEC

    private static func leave(_ place: CInt, _ directory: CInt) {
        guard place != directory else { return }
        let number = errno
        close(place)
        errno = number
    }
}

/// Paths without symbolic links (realpath(3)).
package enum RealPath {
    /// Whether a file is in a directory or below it, after all symbolic links on both paths are followed. Also true if
    /// one of them does not exist, so that opening the file fails.
    package static func isBelow(_ path: String, directory: String) -> Bool {
        guard let path = names(path), let directory = names(directory) else { return true }
        return path.count > directory.count && path.starts(with: directory, by: { $0.elementsEqual($1) })
    }

    private static func names(_ path: String) -> [ArraySlice<UInt8>]? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        let bytes = UnsafeBufferPointer(start: resolved, count: strlen(resolved)).map { UInt8(bitPattern: $0) }
        return bytes.split(separator: UInt8(ascii: "/"))
    }
}

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
