import Glibc

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
